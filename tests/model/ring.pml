/* The ring of a live session on the CPU backend: publish, claim, complete, recycle, sleep, stop.
 *
 * check.py runs this file through Spin, once for each configuration, and again with one mistake at
 * a time (MUTANT_x) to show that each mistake is found. The code is src/backend/live.cpp (desk and
 * bell), src/backend/cpu (workers) and src/runtime/session.cpp (producers, reaping, stop). Ghosts
 * are variables that the code does not have; the assertions refer to them.
 *
 * Steps. A statement or an atomic block is one access to shared memory; other words of the block
 * are private, ghosts, or cannot change while the block's guard is true. A section that a mutex
 * protects is one step. A loop that spins until a word changes is a guard that blocks: a spin that
 * would never end is then a deadlock, which Spin reports, instead of a cycle, which a search for
 * safety passes over.
 *
 * Memory order. Spin interleaves, it does not reorder. An order that is too weak is therefore
 * written out as the reordering it permits: without release the payload is stored after the status,
 * without acquire it is read before the status. The model without mutants has none of these, so it
 * stands for code that has at least these orders:
 *
 *   status PUBLISHED    release store, after the payload      acquire load, before the CAS of head
 *   status DONE, FAULT  release store, after the effects      acquire load, by reaper and fence
 *   reaped              release store, after EMPTY            acquire load, before a reservation
 *   head                acq_rel CAS                           acquire load (MUTANT_head_relaxed)
 *   the desk's word     acq_rel CAS, by producers, sleepers and stop alike
 *   flags of the bell   acq_rel exchange, after DONE          acq_rel exchange, before the look
 *   deferred list, reap lock, permits                         two mutexes and a semaphore
 *
 * EMPTY needs no order beside that of `reaped`, and a deferred status none beside its list's.
 *
 * YIELD stands for REQUEUE too. The model leaves out WAIT_IO, masks and priorities, which change
 * which worker runs an item but not how the item is handed over, and the wrap of 32-bit counters.
 */

/* --- configuration, from the command line ------------------------------------------------------*/

#ifndef SLOTS
#define SLOTS 3 /* 2 to 4 */
#endif
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef HELPERS
#define HELPERS 0 /* host threads that help while they wait, at most 1 */
#endif
#ifndef ITEMS
#define ITEMS 4 /* of all producers together, at most 7 */
#endif
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef FIRST
#define FIRST 1 /* tickets in a producer's first reservation; each later one takes one ticket */
#endif
#ifndef CLAIMS
#define CLAIMS 1 /* most tickets a worker claims at one time, 1 or 2, and fewer than SLOTS */
#endif

/* The behaviour of an item is fixed by its ticket: random choices would only multiply the states.
 * Masks of tickets: */
#ifndef YIELDS
#define YIELDS 0 /* run twice, with a YIELD between */
#endif
#ifndef FAULTS
#define FAULTS 0 /* end as FAULT */
#endif
#ifndef LIMITED
#define LIMITED 0 /* belong to the tenant that has QUOTA */
#endif
#ifndef QUOTA
#define QUOTA 1
#endif

/* Tickets: */
#define NONE 255
#ifndef FENCE
#define FENCE NONE /* a batch fence */
#endif
#ifndef BATCH
#define BATCH 0 /* how many tickets before FENCE it waits for, at most 2 */
#endif
#ifndef AWAITS
#define AWAITS NONE /* yields until it sees the EPOCH that FENCE counts */
#endif
#ifndef SHUTS
#define SHUTS NONE /* sets SHUTDOWN */
#endif

/* The slot of the next ticket stays EMPTY. Otherwise a worker whose head is one lap ahead could
 * find there an item that is claimed but not yet CLAIMED, or that was put back as PUBLISHED, and
 * take it for the next item. */
#ifdef MUTANT_full_ring
#define CAPACITY SLOTS
#else
#define CAPACITY (SLOTS - 1)
#endif

/* --- words -------------------------------------------------------------------------------------*/

#define EMPTY 0
#define PUBLISHED 1
#define CLAIMED 2
#define DONE 3
#define YIELD 5
#define FAULT 7

byte status[SLOTS];
byte payload[SLOTS]; /* ticket + 1; 0: never written */
byte head;           /* next ticket to claim; 64 bits in the code, so there is no ABA */

/* The desk's word: each change is one CAS of all three. */
byte tickets;  /* reserved so far */
byte sleepers; /* workers that wait and that no thread has promised a permit yet */
bool closed;   /* stop was requested */

bool shut;    /* SHUTDOWN */
byte permits; /* the semaphore sleepers wait for */
byte reaped;  /* tickets below are noted and their slots free */
bool reap_lock;

byte deferred[CAPACITY]; /* FIFO; the code keeps slot indices, the model their tickets */
byte deferred_count;

byte inflight;    /* of the tenant with a quota */
byte done_count;  /* the sum of the workers' counters */
byte fault_count; /* likewise */
byte left;        /* workers and helpers that have returned */

#ifdef BELL
/* A host thread that waits raises every worker's flag, looks once more, and sleeps until `rings`
 * changes; a worker that ended items takes its flag down and, if it was up, rings. */
bool flag[WORKERS];
byte rings;
#endif

/* The word that the handler of each item writes and that others read once the item has ended: how
 * often it has run. The word of a fence is the EPOCH. */
byte effect[ITEMS];

/* --- ghosts ------------------------------------------------------------------------------------*/

byte held;      /* set of tickets that workers hold */
byte ended;     /* set of tickets that became DONE or FAULT */
byte noted;     /* set of tickets whose outcome the host has noted */
byte cancelled; /* those of them that were cancelled */
byte done_stores;
byte fault_stores;
byte admitted; /* items that run under the quota */
#ifdef STOP
byte returned; /* producers that have returned */
#endif

#ifdef MUTANT_no_acquire_at_claim
byte older[SLOTS]; /* each slot's payload of the lap before */
#endif

#define BIT(ticket) (1 << (ticket))
#define HAS(set, ticket) (((set) >> (ticket)) & 1)
#define PUT(set, ticket) set = set | BIT(ticket)
#define DROP(set, ticket) set = set & ~BIT(ticket)

#define SLOT(ticket) ((ticket) % SLOTS)
#define STATUS(ticket) status[SLOT(ticket)]
#define IS_TERMINAL(word) ((word) == DONE || (word) == FAULT)
#define RUNS(ticket) (1 + HAS(YIELDS, ticket))

/* Prints, the first time, that the search reached this step. check.py lists the steps that each
 * configuration must reach: an assertion at a step that is never reached proves nothing. */
#define REACH(what) \
    c_code { static int s; if (!s) { s = 1; printf("reached: " #what "\n"); } }

/* --- the deferred list: items behind head that are to run again --------------------------------*/

/* An item is on the list at most once, so the list has room for it. */
inline push(ticket)
{
    d_step {
        assert(deferred_count < CAPACITY);
        deferred[deferred_count] = ticket;
        deferred_count++
    }
}

inline pop(ticket)
{
    d_step {
        ticket = deferred[0];
        deferred_count--;
#if CAPACITY > 1
        deferred[0] = deferred[1];
#endif
#if CAPACITY > 2
        deferred[1] = deferred[2];
#endif
        deferred[deferred_count] = 0
    }
}

#define IS_OVER(ticket) (STATUS(ticket) == EMPTY || IS_TERMINAL(STATUS(ticket)))
#if BATCH
#define FENCE_IS_READY (IS_OVER(FENCE - 1) && IS_OVER(FENCE - BATCH))
#define MUST_AWAIT(ticket) ((ticket) == AWAITS && effect[FENCE] == 0)
#else
#define FENCE_IS_READY true
#define MUST_AWAIT(ticket) false
#endif

/* Checks that a worker makes before it claims an entry of the list. */
#define LOOKS_READY(ticket) \
    ((!HAS(LIMITED, ticket) || inflight < QUOTA) && ((ticket) != FENCE || FENCE_IS_READY))
#define CAN_GO_ON(ticket) (LOOKS_READY(ticket) && !MUST_AWAIT(ticket))

/* In the code, an idle worker takes entries from the list and puts them back until an entry can go
 * on. While no entry can go on, this changes nothing, so the model waits until one can: if none
 * ever can, that is a deadlock instead of a busy loop. Entries are still put back: those in front
 * of the entry that can go on, and that entry itself if another worker changes its condition first.
 * The search for livelocks (LIVENESS) has the loop as it is in the code. */
#define ENTRY_CAN_GO_ON(i) (deferred_count > (i) && CAN_GO_ON(deferred[i]))
#if defined(LIVENESS)
#define LIST_IS_WORTH_A_LOOK (deferred_count > 0)
#elif CAPACITY == 1
#define LIST_IS_WORTH_A_LOOK ENTRY_CAN_GO_ON(0)
#elif CAPACITY == 2
#define LIST_IS_WORTH_A_LOOK (ENTRY_CAN_GO_ON(0) || ENTRY_CAN_GO_ON(1))
#else
#define LIST_IS_WORTH_A_LOOK (ENTRY_CAN_GO_ON(0) || ENTRY_CAN_GO_ON(1) || ENTRY_CAN_GO_ON(2))
#endif

/* --- a worker's steps --------------------------------------------------------------------------*/

inline hold(ticket)
{
    assert(!HAS(held, ticket));
    assert(!HAS(ended, ticket));
    PUT(held, ticket)
}

inline let_go(ticket, word)
{
    d_step {
        assert(STATUS(ticket) == CLAIMED);
        STATUS(ticket) = word;
        DROP(held, ticket)
    }
}

inline store_end(ticket, word)
{
    d_step {
        assert(STATUS(ticket) == CLAIMED);
        assert(!HAS(ended, ticket));
        STATUS(ticket) = word;
        PUT(ended, ticket);
        DROP(held, ticket);
        done_stores = done_stores + (word == DONE);
        fault_stores = fault_stores + (word == FAULT)
    }
}

/* Comes after the store of the status: a host that reads a count of n finds n items complete. */
inline count_end(ticket)
{
    d_step {
        done_count = done_count + !HAS(FAULTS, ticket);
        fault_count = fault_count + HAS(FAULTS, ticket);
        assert(done_count <= done_stores && fault_count <= fault_stores)
    }
}

/* Adds 1, and subtracts it again if the quota is exceeded. Meanwhile the 1 can make the request of
 * another worker fail. Two workers do not make each other fail for ever, because a worker checks
 * the quota before it claims. */
inline ask_quota(refused)
{
    d_step {
        inflight++;
        refused = inflight > QUOTA;
        admitted = admitted + !refused;
        assert(admitted <= QUOTA)
    };
    if
    :: refused ->
        atomic {
            inflight--;
            REACH(over_quota)
        }
    :: else
    fi
}

inline give_quota_back(ticket)
{
    if
    :: HAS(LIMITED, ticket) ->
        d_step {
            inflight--;
            admitted--
        }
    :: else
    fi
}

#define MUST_LEAVE (closed || shut)

inline wake_all(woken)
{
    d_step {
        woken = sleepers;
        sleepers = 0
    };
    d_step {
        permits = permits + woken;
        woken = 0
    }
}

/* A producer that reserves and a worker that falls asleep need a CAS of this word, which fails once
 * the desk is closed. */
inline close_desk(woken)
{
    atomic {
        closed = true;
        if
        :: sleepers > 0 -> REACH(stop_wakes)
        :: else
        fi
    };
    wake_all(woken)
}

/* Puts an item back onto the list. The status is stored first: a worker that takes the entry must
 * find it claimable. */
inline put_back(ticket, word, has_quota)
{
#ifdef MUTANT_list_before_status
    push(ticket);
#endif
    let_go(ticket, word);
    if
    :: has_quota -> give_quota_back(ticket)
    :: else
    fi;
#ifndef MUTANT_list_before_status
    push(ticket);
#endif
#if HELPERS && !defined(MUTANT_helper_defers_silently)
    /* A worker that defers an item is awake and looks at the list next. A helper never looks. */
    if
    :: is_helper -> wake_all(looked)
    :: else
    fi
#endif
}

/* In the model, a nap does not end while no entry can go on, for the reason given at
 * LIST_IS_WORTH_A_LOOK. */
#ifdef LIVENESS
#define NAP_IS_OVER true
#else
#define NAP_IS_OVER (LIST_IS_WORTH_A_LOOK || deferred_count == 0)
#endif

proctype worker(bool is_helper)
{
    byte ticket; /* the head it saw, later the ticket it holds */
    byte copy;   /* of the payload */
    byte as_was; /* the status to put back */
    byte until;  /* the ticket behind the last one it has claimed */
    byte looked; /* slots of its batch that a fence has found over */
    bool naps;   /* it sleeps for a short time only, because the list is not empty */
    bool no;
#ifdef LIVENESS
    bool idle; /* the last look at the list moved nothing */
#endif

look:
    atomic {
        if
        :: MUST_LEAVE -> goto leave
        :: else
        fi;
        ticket = head;
#ifdef MUTANT_payload_read_before_claim
        copy = payload[SLOT(ticket)];
#endif
    };
    /* A worker takes from head or list in any order, so that every policy is covered. Only the
     * search for progress needs a fixed policy, under which a worker rests only after a look at the
     * list. List first starves items that entries of the list wait for. Head first, or in turns as
     * in the code, starves nothing: items on the list keep the ring from being filled for ever. */
    if
    :: MUST_LEAVE -> goto leave
#if HELPERS
    /* A helper looks at head only, never sleeps here, and may leave at any time. */
    :: is_helper -> goto leave
    :: is_helper && STATUS(ticket) == PUBLISHED -> goto claim
    :: is_helper && head != ticket -> goto look
    :: !is_helper && STATUS(ticket) == PUBLISHED -> goto claim
    :: !is_helper && LIST_IS_WORTH_A_LOOK -> goto take
#elif defined(LIVENESS) && !defined(MUTANT_list_first)
    :: STATUS(ticket) == PUBLISHED -> goto claim
    :: STATUS(ticket) != PUBLISHED && LIST_IS_WORTH_A_LOOK -> goto take
#elif defined(LIVENESS)
    :: STATUS(ticket) == PUBLISHED && !LIST_IS_WORTH_A_LOOK -> goto claim
    :: LIST_IS_WORTH_A_LOOK -> goto take
#else
    :: STATUS(ticket) == PUBLISHED -> goto claim
    :: LIST_IS_WORTH_A_LOOK -> goto take
#endif
#ifdef MUTANT_head_relaxed
    /* Nothing orders the store of EMPTY before this load: it may still see PUBLISHED of the lap
     * before and, since head is up to date, win the CAS. */
    :: ticket >= SLOTS -> goto claim
#endif
    :: atomic {
#ifdef LIVENESS
        tickets == ticket && (deferred_count == 0 || idle);
        idle = false;
#else
        tickets == ticket && !is_helper;
#endif
#ifdef MUTANT_nap_chosen_before_sleep
        naps = deferred_count > 0
#endif
    };
        goto sleep
    :: head != ticket -> goto look
    fi;

claim:
    until = ticket + 1;
#if CLAIMS > 1
    if
    :: STATUS(ticket + 1) == PUBLISHED -> until = ticket + 2
    :: true
    fi;
#endif
#ifdef MUTANT_double_claim
    if
    :: head == ticket /* load, compare, store */
    :: else -> goto look
    fi;
    atomic {
        head = ticket + 1;
        hold(ticket)
    };
#else
    atomic {
        if
        :: head == ticket ->
            head = until;
            hold(ticket);
            if
            :: until > ticket + 1 ->
                hold(ticket + 1);
                REACH(claimed_two)
            :: else
            fi;
            if
            :: ticket >= SLOTS -> REACH(claimed_next_lap)
            :: else
            fi
        :: else ->
            REACH(lost_claim);
            ticket = 0;
            until = 0;
            goto look
        fi
    };
#endif

claimed:
    atomic {
        if
        :: MUST_LEAVE ->
            /* Items it has claimed but not begun are still PUBLISHED: the host cancels them. */
            DROP(held, ticket);
            if
            :: ticket + 1 < until ->
                DROP(held, ticket + 1);
                REACH(left_claimed)
            :: else
            fi;
            goto leave
        :: true -> STATUS(ticket) = CLAIMED
        fi
    };
    as_was = PUBLISHED;
    goto holding;

take:
    atomic {
        if
        :: deferred_count > 0 ->
            pop(ticket);
            hold(ticket);
            REACH(took_deferred)
        :: else ->
            ticket = 0;
            goto look
        fi
    };
#ifndef MUTANT_quota_overshoot
    if
    :: LOOKS_READY(ticket)
    :: else ->
        DROP(held, ticket);
        push(ticket);
#ifdef LIVENESS
        idle = true;
#endif
        goto next
    fi;
#endif
    /* A CAS that cannot fail: a worker reaches this slot only by its single entry on the list. */
    d_step {
        as_was = STATUS(ticket);
        assert(as_was == YIELD || as_was == PUBLISHED);
        STATUS(ticket) = CLAIMED
    };

holding:
    /* The payload is read once, after the claim. (With a wide head, any time after the acquire
     * would do: if the CAS of head succeeds, no other worker had the slot.) */
    atomic {
#if defined(MUTANT_no_acquire_at_claim)
        if
        :: copy = payload[SLOT(ticket)]
        :: copy = older[SLOT(ticket)]
        fi;
#elif !defined(MUTANT_payload_read_before_claim)
        copy = payload[SLOT(ticket)];
#endif
        assert(copy == ticket + 1);
        copy = 0
    };

#if LIMITED
    if
    :: HAS(LIMITED, ticket) ->
        ask_quota(no);
        if
        :: no ->
            no = false;
#ifdef MUTANT_putback_loses_slot
            let_go(ticket, as_was); /* it is behind head: no worker looks there again */
#else
            put_back(ticket, as_was, false);
#endif
            goto next
        :: else
        fi
    :: else
    fi;
#endif

#if BATCH
    if
    :: ticket == FENCE -> goto fence
    :: else
    fi;
#endif

    /* The handler. A cancelled item must not run, not even its second half. */
#ifdef MUTANT_done_before_effects
    store_end(ticket, DONE);
#endif
    d_step {
        assert(!HAS(cancelled, ticket));
        no = MUST_AWAIT(ticket);
        effect[ticket] = effect[ticket] + !no;
        no = no || effect[ticket] < RUNS(ticket);
        shut = shut || ticket == SHUTS;
        if
        :: no -> REACH(yielded)
        :: else
        fi
    };
    if
    :: no ->
        no = false;
        put_back(ticket, YIELD, true);
#ifdef MUTANT_yield_counts_done
        count_end(ticket);
#endif
        goto next
    :: else
    fi;

finish:
    if
    :: HAS(FAULTS, ticket) -> store_end(ticket, FAULT)
#ifdef MUTANT_done_before_effects
    :: else
#else
    :: else -> store_end(ticket, DONE)
#endif
    fi;
#ifdef MUTANT_quota_not_given_back
    if
    :: HAS(FAULTS, ticket) /* the path on which the mutant forgets the quota */
    :: else -> give_quota_back(ticket)
    fi;
#else
    give_quota_back(ticket);
#endif
    count_end(ticket);

next:
    atomic {
        as_was = 0;
        if
        :: ticket + 1 < until ->
            ticket++;
            goto claimed
        :: else ->
            ticket = 0;
            until = 0
        fi
    };
#ifdef BELL
    atomic {
        no = flag[_pid - 1];
        flag[_pid - 1] = false
    };
    if
    :: no ->
        no = false;
        rings++
    :: else
    fi;
#endif
    goto look;

#if BATCH
fence:
    /* One load for each slot. An item that is over stays over, so these may be several steps. */
    do
    :: atomic {
#ifdef MUTANT_fence_does_not_wait
        looked < BATCH;
#else
        looked < BATCH && IS_OVER(FENCE - BATCH + looked);
#endif
        looked++
    }
    :: looked == BATCH -> break
    :: else ->
        looked = 0;
        REACH(fence_waited);
        put_back(ticket, YIELD, true);
        goto next
    od;
    atomic {
        looked = 0;
        do
        :: looked < BATCH ->
            assert(HAS(ended, FENCE - BATCH + looked));
            assert(effect[FENCE - BATCH + looked] == RUNS(FENCE - BATCH + looked));
            looked++
        :: else -> break
        od;
        looked = 0;
        effect[ticket]++
    };
    goto finish;
#endif

sleep:
    /* A worker sleeps only while every reserved ticket is claimed: a reservation before this CAS
     * makes it fail, a reservation after it finds the sleeper and owes it a permit. */
    atomic {
        if
#ifdef MUTANT_lost_wakeup
        :: sleepers++ /* the load of `tickets` was a step of its own */
#elif defined(MUTANT_sleep_through_stop)
        :: tickets == ticket -> sleepers++
        :: else ->
            naps = false;
            ticket = 0;
            goto look
#else
        :: tickets == ticket && !closed -> sleepers++
        :: else ->
            naps = false;
            ticket = 0;
            goto look
#endif
        fi;
        ticket = 0
    };
#if (YIELDS || LIMITED || BATCH) && !defined(MUTANT_sleep_beside_list) \
    && !defined(MUTANT_nap_chosen_before_sleep)
    /* After the CAS: a helper that defers an item either wakes this worker, which is on the count,
     * or has put the item on the list before this load. */
    naps = deferred_count > 0;
#endif
end_asleep: /* a session may end with its workers asleep */
    if
    :: atomic {
        permits > 0;
        permits--;
        REACH(woke_up)
    }
    :: atomic {
        naps && NAP_IS_OVER;
        if
        :: sleepers > 0 ->
            sleepers--;
            REACH(gave_up_sleep)
        :: else ->
            REACH(gave_up_late);
            goto end_promised
        fi
    }
    fi;
    naps = false;
    goto look;

end_promised:
    /* Another thread took a sleeper off the count and owes a permit. If another sleeper takes that
     * permit, this one is on the count in its place, and the other is awake and sees the list. */
    atomic {
        permits > 0;
        permits--;
        naps = false
    };
    goto look;

leave:
    until = 0;
    ticket = 0;
#if SHUTS != NONE && !defined(MUTANT_shutdown_leaves_sleepers)
    /* SHUTDOWN comes from an item, so no host thread closes the desk: a leaving worker does. */
    close_desk(looked);
#endif
    left++
}

/* --- the host ----------------------------------------------------------------------------------*/

inline note(ticket)
{
    assert(HAS(ended, ticket));
    assert(!HAS(noted, ticket));
    assert(effect[ticket] == RUNS(ticket));
    PUT(noted, ticket)
}

/* Slots of a batch are not reused before its fence is DONE. Otherwise the fence would find items of
 * the next lap there and wait for them too, for ever if one of those waits for the fence. */
#if BATCH && !defined(MUTANT_batch_not_held)
#define IS_OF_BATCH(ticket) ((ticket) < FENCE && (ticket) + BATCH >= FENCE)
#define IS_REAPABLE \
    (IS_TERMINAL(STATUS(reaped)) && (!IS_OF_BATCH(reaped) || IS_TERMINAL(STATUS(FENCE))))
#else
#define IS_REAPABLE IS_TERMINAL(STATUS(reaped))
#endif

/* Called with the reap lock held; releases it. */
inline reap()
{
#ifdef MUTANT_recycle_before_reap
    /* Stores `reaped` first and EMPTY later; relaxed stores may become visible in that order too.
     * (If it reaped one slot at a time, the spare slot would hide the mistake.) */
    do
    :: atomic {
        IS_REAPABLE;
        note(reaped);
        reaped++;
        late++
    }
    :: else -> break
    od;
    do
    :: late > 0 ->
        STATUS(reaped - late) = EMPTY;
        late--
    :: else -> break
    od;
#else
    do
    :: atomic {
        IS_REAPABLE;
        note(reaped);
        STATUS(reaped) = EMPTY
    };
        reaped++
    :: else -> break
    od;
#endif
    reap_lock = false
}

#define HAS_ROOM(count) (tickets - reaped + (count) <= CAPACITY)

proctype producer(byte to_publish)
{
    byte ticket, count, woken;
    byte last; /* the ticket behind those it has reserved */
#ifdef MUTANT_recycle_before_reap
    byte late;
#endif

    count = FIRST;
    do
    :: to_publish == 0 -> break
    :: atomic {
        /* The code reads `reaped` before its CAS. An old value only makes the ring look fuller, so
         * this single step covers both. */
#ifdef MUTANT_reserve_after_stop
        to_publish > 0 && HAS_ROOM(count);
#else
        to_publish > 0 && HAS_ROOM(count) && !closed;
#endif
        ticket = tickets;
        last = tickets + count;
        tickets = last;
        woken = (sleepers < count -> sleepers : count);
        sleepers = sleepers - woken;
        if
        :: woken > 1 -> REACH(wakes_two)
        :: else
        fi
    };
#if BATCH
        if
        :: ticket <= FENCE && FENCE < last -> !reap_lock /* the lock for noting the batch */
        :: else
        fi;
#endif
        do
        :: ticket < last ->
            assert(STATUS(ticket) == EMPTY);
#ifdef MUTANT_no_acquire_at_claim
            older[SLOT(ticket)] = payload[SLOT(ticket)];
#endif
#ifdef MUTANT_no_release_at_publish
            STATUS(ticket) = PUBLISHED;
            payload[SLOT(ticket)] = ticket + 1;
#else
            payload[SLOT(ticket)] = ticket + 1;
            atomic {
                STATUS(ticket) = PUBLISHED;
                if
                :: ticket > 0 && STATUS(ticket - 1) == EMPTY && !HAS(noted, ticket - 1) ->
                    REACH(published_ahead)
                :: else
                fi
            };
#endif
            ticket++
        :: else -> break
        od;
        if
        :: woken > 0 -> permits = permits + woken
        :: else
        fi;
        to_publish = to_publish - count;
        count = 1;
        ticket = 0;
        last = 0;
        woken = 0
    :: atomic {
        to_publish > 0 && !HAS_ROOM(count) && !reap_lock && IS_REAPABLE;
        reap_lock = true;
        REACH(reaped_for_room)
    };
        reap()
    :: to_publish > 0 && closed ->
        REACH(refused);
        break
    od;

#ifndef STOP
    /* All items were accepted, so all of them end, are noted and are counted. If an item is lost,
     * this waits for ever, which Spin reports. */
#ifdef BELL
    do
    :: reaped == ITEMS -> break
    :: else ->
        ticket = rings;
        do
        :: last < WORKERS ->
            flag[last] = true;
            last++
        :: else -> break
        od;
        last = 0;
        if
#ifndef MUTANT_bell_without_second_look
        :: atomic {
            IS_REAPABLE;
            reap_lock = true
        };
            reap()
#endif
        :: else ->
            atomic {
                rings != ticket;
                REACH(heard_bell)
            }
        fi;
        ticket = 0
    od;
#else
    do
    :: reaped == ITEMS -> break
    :: atomic {
        reaped < ITEMS && !reap_lock && IS_REAPABLE;
        reap_lock = true
    };
        reap()
    od;
#endif
    atomic {
        done_count + fault_count == ITEMS && inflight == 0;
        assert(noted == BIT(ITEMS) - 1);
        assert(held == 0 && admitted == 0 && deferred_count == 0)
    }
#else
    returned++
#endif
}

#ifdef STOP
/* Stops the session at any time, also between a producer's reservation and its publish; with a
 * SHUTDOWN, after the workers have left. */
proctype stopper()
{
    byte ticket;

#if SHUTS != NONE
    left == WORKERS;
#endif
    close_desk(ticket);
#if defined(MUTANT_helper_outlives_stop)
    left >= WORKERS;
#elif !defined(MUTANT_cancel_against_claim)
    left == WORKERS + HELPERS;
#endif

#ifndef MUTANT_cancel_waits_with_lock
    /* If a reserved slot is still EMPTY, its producer is about to publish it and may need the lock
     * before it does, so this loop waits without the lock. */
    ticket = reaped;
    do
    :: ticket < tickets ->
        if
        :: STATUS(ticket) == EMPTY && ticket >= reaped -> REACH(cancel_waits_for_publish)
        :: else
        fi;
        STATUS(ticket) != EMPTY || ticket < reaped;
        ticket++
    :: else -> break
    od;
    ticket = 0;
#endif
    atomic {
        !reap_lock;
        reap_lock = true
    };
    do
    :: reaped == tickets -> break
    :: else ->
        if
        :: atomic {
            IS_TERMINAL(STATUS(reaped));
            note(reaped);
            STATUS(reaped) = EMPTY
        }
        :: atomic {
            STATUS(reaped) == PUBLISHED || STATUS(reaped) == YIELD;
            if
            :: STATUS(reaped) == YIELD -> REACH(cancelled_yield)
            :: else -> REACH(cancelled_published)
            fi;
            assert(!HAS(ended, reaped));
            assert(!HAS(noted, reaped));
            PUT(noted, reaped);
            PUT(cancelled, reaped);
            STATUS(reaped) = EMPTY
        }
        fi;
        reaped++
    od;
    reap_lock = false;
    atomic {
        returned == PRODUCERS;
        assert(noted == BIT(tickets) - 1); /* every ticket that was given out has an outcome */
        assert((ended & cancelled) == 0);
        assert(held == 0 && admitted == 0 && inflight == 0);
        assert(done_count == done_stores && fault_count == fault_stores)
    }
}
#endif

init
{
    byte started;
    atomic {
        do
        :: started < WORKERS + HELPERS ->
            run worker(started >= WORKERS);
            started++
        :: else -> break
        od;
        started = 0;
        do
        :: started < PRODUCERS ->
            run producer(ITEMS / PRODUCERS);
            started++
        :: else -> break
        od;
#ifdef STOP
        run stopper();
#endif
        started = 0
    }
}

#ifdef LIVENESS
/* Under weak fairness: no thread that could go on stands still for ever. */
ltl every_item_is_noted { <> (reaped == ITEMS) }
#endif
