/* The ring of a live session on the CPU backend: publish, claim, complete, recycle, sleep, stop.
 *
 * check.py runs this file through Spin, once a configuration, and again with one mistake at a time
 * (MUTANT_x) to show that each of them is found. The code is src/backend/live.cpp (desk and bell),
 * src/backend/cpu (workers) and src/runtime/session.cpp (producers, reaping, stop). Ghosts, which
 * no code has, state what must hold.
 *
 * Steps. A statement or an atomic block is one access to shared memory; what a block holds beside
 * that access is private, a ghost, or cannot change while the block's guard is true. What a mutex
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
 * YIELD stands for REQUEUE too. Not here: WAIT_IO, masks and priorities, which change who runs an
 * item but not how it is handed over, and the wrap of 32-bit counters.
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

/* What an item does is fixed by its ticket: chance would only multiply the states. Masks: */
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

/* One slot stays EMPTY, that of the next ticket. Else a worker whose head is one lap ahead finds
 * there what was claimed but is not yet CLAIMED, or was put back as PUBLISHED, and takes it for the
 * next item. */
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
byte sleepers; /* workers that wait and that nobody has promised a permit yet */
bool closed;   /* stop was asked for */

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

/* What handlers write and others read once the item has ended: how often it has run. A fence's is
 * the EPOCH. */
byte effect[ITEMS];

/* --- ghosts ------------------------------------------------------------------------------------*/

byte held;      /* set of tickets in a worker's hands */
byte ended;     /* set of tickets that became DONE or FAULT */
byte noted;     /* set of tickets whose outcome the host has noted */
byte cancelled; /* those of them that were cancelled */
byte done_stores;
byte fault_stores;
byte admitted; /* items that run under the quota */
#ifdef STOP
byte returned; /* producers that have nothing more to do */
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

/* Says, the first time, that the search came by. check.py knows what a configuration has to reach:
 * what holds of a step that is never taken proves nothing. */
#define REACH(what) \
    c_code { static int s; if (!s) { s = 1; printf("reached: " #what "\n"); } }

/* --- the deferred list: items behind head that are to run again --------------------------------*/

/* An item is there at most once, so the list has room for it. */
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

/* What a worker can see before it claims an entry of the list. */
#define LOOKS_READY(ticket) \
    ((!HAS(LIMITED, ticket) || inflight < QUOTA) && ((ticket) != FENCE || FENCE_IS_READY))
#define CAN_GO_ON(ticket) (LOOKS_READY(ticket) && !MUST_AWAIT(ticket))

/* A worker with nothing else to do turns the list over until an entry can go on. To turn it over
 * while none can changes nothing, so the model waits until one can: a list on which none ever can
 * is a deadlock then, not a busy loop. Being put back once more still happens, since entries in
 * front of the one that can go on are turned over, and that one can lose its chance. The search for
 * livelocks (LIVENESS) has the loop as it is. */
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

/* After the status: a host that reads n here finds n items complete. */
inline count_end(ticket)
{
    d_step {
        done_count = done_count + !HAS(FAULTS, ticket);
        fault_count = fault_count + HAS(FAULTS, ticket);
        assert(done_count <= done_stores && fault_count <= fault_stores)
    }
}

/* Add, and if it was too much subtract. What is added for a moment can refuse another worker; that
 * they do not refuse each other for ever is due to the look before the claim. */
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

/* Whoever reserves or falls asleep needs a CAS of this word: afterwards nobody does. */
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

/* Back onto the list. The status first: whoever takes the entry must find it claimable. */
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
    /* A worker that defers an item is awake and sees the list next. A helper never looks at it. */
    if
    :: is_helper -> wake_all(looked)
    :: else
    fi
#endif
}

/* A nap whose end would change nothing goes on in the model, for the reason above. */
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
    byte until;  /* the ticket behind those it has claimed with this one */
    byte looked; /* slots of its batch that a fence has found over */
    bool naps;   /* it sleeps beside a list that is not empty, for a short time only */
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
    /* Head and list in any order, so that every policy is covered. Only who asks for progress has
     * to name one, and rests only after a look at the list. The list first starves items that those
     * on the list wait for. Head first, or in turns as in the code, starves nothing: what is on the
     * list keeps the ring from being filled for ever. */
    if
    :: MUST_LEAVE -> goto leave
#if HELPERS
    /* A helper looks at head only, never sleeps here, and goes when it likes. */
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
    /* Nothing orders the slot's EMPTY before this look: it may still see the lap before PUBLISHED
     * and, since head is as it should be, win the CAS. */
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
            /* What it has claimed but not begun is still PUBLISHED: the host takes it back. */
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
    /* A CAS that cannot fail: only the list leads to this slot, and it had it once. */
    d_step {
        as_was = STATUS(ticket);
        assert(as_was == YIELD || as_was == PUBLISHED);
        STATUS(ticket) = CLAIMED
    };

holding:
    /* Once, after the claim. (With a wide head any time after the acquire would do: if the CAS of
     * head succeeds, nobody else had the slot.) */
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
            let_go(ticket, as_was); /* it is behind head: nobody looks there again */
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
    :: HAS(FAULTS, ticket) /* the way out that is forgotten */
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
    /* A look a slot. What was over once stays over, so the looks need not be of one moment. */
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
    /* Only while nothing is reserved that is not claimed: a reservation that comes before this CAS
     * makes it fail, one that comes after it finds the sleeper and owes it a permit. */
    atomic {
        if
#ifdef MUTANT_lost_wakeup
        :: sleepers++ /* the look at `tickets` was a step of its own */
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
    /* After the CAS: a helper that defers an item before this look wakes all that are on the count,
     * or its item is seen here. */
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
    /* Somebody took a sleeper off the count and owes a permit. Another sleeper may be faster; then
     * this one is on the count in its place, and the other is awake and sees the list. */
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
    /* SHUTDOWN comes from an item, so no host thread closes the desk: who leaves does. */
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

/* Slots of a batch are not given out again before its fence is DONE. Else the fence finds items of
 * the next lap there and waits for them too; if one of those waits for the fence, for ever. */
#if BATCH && !defined(MUTANT_batch_not_held)
#define IS_OF_BATCH(ticket) ((ticket) < FENCE && (ticket) + BATCH >= FENCE)
#define IS_REAPABLE \
    (IS_TERMINAL(STATUS(reaped)) && (!IS_OF_BATCH(reaped) || IS_TERMINAL(STATUS(FENCE))))
#else
#define IS_REAPABLE IS_TERMINAL(STATUS(reaped))
#endif

/* With the reap lock held, which it gives back. */
inline reap()
{
#ifdef MUTANT_recycle_before_reap
    /* `reaped` first, EMPTY later; relaxed stores may come out like that too. (One slot at a time
     * the spare slot would hide it.) */
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
         * this one step does all that the two can. */
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
        :: ticket <= FENCE && FENCE < last -> !reap_lock /* under it the batch is written down */
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
    /* All were accepted, so all end, are noted and are counted; to wait here for ever is to have
     * lost one. */
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
/* Comes at any time, also between a producer's reservation and its publish; after a SHUTDOWN, when
 * the workers have left by themselves. */
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
    /* A slot that is still EMPTY is one that its producer is about to publish. The producer may
     * need the lock before it does. */
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
