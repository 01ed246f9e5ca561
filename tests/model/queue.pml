/* Live queues on the CPU: publish, take, end, note, fence, sleep, wait, close, cancel, stop.
 *
 * check.py runs this file through Spin, once for each configuration, and again with one
 * mistake at a time (MUTANT_x) to show that each mistake is found. The rules are those of the live
 * queues' specification; recover.pml has those of a lost kernel. Ghosts are variables that the code
 * does not have; the assertions refer to them.
 *
 * Steps. A statement or an atomic block is one access to shared memory; other words of the block
 * are private, ghosts, or cannot change while the block's guard is true. A loop that spins until a
 * word changes is a guard that blocks: a spin that would never end is then a deadlock, which Spin
 * reports, instead of a cycle, which a search for safety passes over.
 *
 * Memory order. Spin interleaves, it does not reorder. An order that is too weak is therefore
 * written out as the reordering it permits: without release the lap bit is stored before the body,
 * without the heavy fence `armed` is read before the entry is stored. The model without mutants has
 * none of these, so it stands for code that has at least these orders:
 *
 *   lap bit of an entry  release store, after the body         acquire load, before the copy
 *   outcome byte         release store, after the effects      acquire load, by all who read it
 *   floor                acq_rel CAS, after the outcome        acquire load, before the claim
 *   head                 acq_rel CAS                           acquire load
 *   tail                 relaxed CAS                           relaxed load
 *   noted                release store, after the note         acquire load, before a reservation
 *   state                release store, after the outcomes     acquire load, before the outcome
 *   note lock, deferred table, bell                            two mutexes and a semaphore
 *
 * In four pairs, each side stores a word and then loads the word of the other, where no release
 * helps. The side that goes to sleep has a heavy fence (membarrier) between the two, which orders
 * the store and the load of the other side, too:
 *
 *   worker: armed++, then its last look        producer: entry, then armed
 *   worker: armed++, then the flag             stop: the flag, then armed
 *   worker: its outcomes, then the table       worker: the table, then the outcomes of the batch
 *   waiter: sleepers++, then outcome or state  worker, drain: outcome or state, then sleepers
 *
 * The third has its fence because a worker sleeps only after a look behind armed++.
 *
 * The model leaves out masks, quotas, priorities, YIELD and WAIT_IO, which change which worker runs
 * an item but not how the item is handed over, and the wrap of 64-bit tickets.
 */

/* --- configuration, from the command line ------------------------------------------------------*/

#ifndef QUEUES
#define QUEUES 2 /* 1 or 2 */
#endif
#ifndef PLACES
#define PLACES 2 /* the capacity of each queue */
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ITEMS0
#define ITEMS0 2 /* of queue 0, of all its producers together */
#endif
#ifndef ITEMS1
#define ITEMS1 2 /* of queue 1, if there are two */
#endif
#ifndef PRODUCERS
#define PRODUCERS 1 /* threads of the process that publishes into queue 0, 1 or 2 */
#endif
#ifndef FIRST
#define FIRST 1 /* tickets in the first reservation of queue 0's producers; later ones take one */
#endif
#ifndef CLAIMS
#define CLAIMS 1 /* most tickets a worker claims at one time, 1 or 2 */
#endif
#ifndef FAULTS
#define FAULTS 1 /* set of tickets of queue 0 that end as FAULT */
#endif

/* Tickets of queue 0: */
#define NONE 255
#ifndef WAITS
#define WAITS NONE /* a host thread of its own sleeps until this one has ended */
#endif
#ifndef FENCE
#define FENCE NONE /* a batch fence */
#endif
#ifndef BATCH
#define BATCH 0 /* how many tickets before FENCE it waits for, less than PLACES */
#endif
/* A long item: it does not end before another item has ended, so that a worker that sleeps beside a
 * visible item is a deadlock. */
#ifndef LONG
#define LONG NONE
#endif
#ifndef LONG_AT
#define LONG_AT 0 /* its queue */
#endif
#ifndef LONG_FOR
#define LONG_FOR 0 /* the other item's ticket */
#endif
#ifndef LONG_QUEUE
#define LONG_QUEUE 0 /* and that one's queue */
#endif

/* POLL: workers do not sleep, which leaves room for more items and threads.
 * ANY_ORDER: before a worker sleeps it looks at the queues and the deferred table in any order.
 * LOOK_FIRST: a worker arms only after a look that found nothing.
 * RING_OWN_QUEUE: a worker that takes an item rings only for the next one of the same queue. With
 * LOOK_FIRST this is enough: every publish rings once, and whoever is woken takes something, if
 * there is anything, before it arms again.
 * FEED: the queue of a run. Its producer is the host itself, so that workers take what is valid
 * without a look at `floor`; it rings once for each entry, and workers ring for nobody.
 * EAGER: a worker may advance `floor` whenever it has ended an item, not only when it needs room.
 * WALK: `floor` is advanced by as many tickets as have ended, with one CAS unless it is higher.
 * COPY_BEFORE_CLAIM: a worker copies entries between its look and its claim. This is no mistake: if
 * the claim succeeds, nobody else had the ticket.
 * DIES: the thread that publishes into the last queue may die, or stand still, wherever it is.
 * HOSTILE=n: the process that publishes into queue 1 changes its file n times, as it likes.
 * CLOSE: the kernel side closes the last queue at any time.
 * CANCEL: closing also tells workers to take tickets without running them.
 * STOP: after CLOSE the workers are sent home. */
#ifndef HOSTILE
#define HOSTILE 0
#endif
#ifdef MUTANT_arms_without_look
#undef LOOK_FIRST
#endif
#define LAST (QUEUES - 1)

/* The first ticket of every queue. Memory starts as zeros, so its lap must have the bit 1. */
#ifdef MUTANT_first_ticket_in_odd_lap
#define START PLACES
#else
#define START 0
#endif

/* --- words -------------------------------------------------------------------------------------*/

#define BIT(ticket) (1 << (ticket))
#define HAS(set, ticket) (((set) >> (ticket)) & 1)
#define PUT(set, ticket) set = set | BIT(ticket)

#define LAP(ticket) (((ticket) / PLACES + 1) % 2)
#define AT(queue, ticket) ((queue) * PLACES + (ticket) % PLACES)

/* Producer file. */
byte tail[QUEUES];          /* tickets reserved */
bit lap[QUEUES * PLACES];   /* the entries: the lap bit, stored last, */
byte body[QUEUES * PLACES]; /* and the rest: ticket + 1; a hostile producer's is 0 (bad) or 1 */
#ifdef MUTANT_filled_believed
byte filled[QUEUES];
#endif

/* The producing process's own. */
byte noted[QUEUES];       /* every ticket below has ended, and its outcome is noted */
bool note_lock[QUEUES];
byte fault_notes[QUEUES]; /* set of tickets noted as FAULT or CANCELLED: only these are kept */

/* Kernel file. */
#define OPEN 0
#define DRAINING 1
#define CLOSED 2
byte state[QUEUES];
byte outcome[QUEUES * PLACES]; /* lap bit and code in one byte */

/* The futex word of the host thread that waits. It is a counter in the code; here it says whether
 * the counter has changed since that thread read it. */
bool wake;
byte sleepers; /* host threads that sleep on it, or are about to */

#define DONE 1
#define FAULT 2
#define CANCELLED 3
#define OUTCOME(ticket, code) (LAP(ticket) * 4 + (code))

/* Kernel side's own. */
byte head[QUEUES];  /* next ticket to take */
byte floor[QUEUES]; /* every ticket below has ended */
byte armed;         /* workers that sleep, or are about to */
byte bell;          /* the semaphore that they sleep on */
bool deferred;      /* FENCE is in the deferred table */
#ifdef CLOSE
bool sealed;     /* nothing more is taken from the queue that is closed; one word with its head */
bool cancelling; /* its tickets are taken without being run */
#endif
#ifdef STOP
bool stopping; /* workers are to leave */
byte left;     /* workers that have left */
#endif

/* The words that the handlers write and that others read once the item has ended. */
byte effects[QUEUES]; /* set of tickets */

/* --- ghosts ------------------------------------------------------------------------------------*/

byte ended[QUEUES]; /* set of tickets whose outcome was stored */
#ifdef CLOSE
byte stored; /* set of tickets of the queue that is closed whose entries are complete */
byte due;    /* those that must end: stored, like all tickets before them, before the drain began */
#endif

/* Prints, the first time, that the search reached this step. check.py lists the steps that
 * each configuration must reach: an assertion at a step that is never reached proves nothing. */
#define REACH(what) \
    c_code { static int s; if (!s) { s = 1; printf("reached: " #what "\n"); } }

#define CODE(queue, ticket) ((queue) == 0 && HAS(FAULTS, ticket) -> FAULT : DONE)

#define CODE_OF(byte_) ((byte_) % 4)

/* Zeros are no outcome: there is a lap bit of 0, but no code of 0. */
#ifdef MUTANT_outcome_without_lap_bit
#define HAS_ENDED(queue, ticket) (CODE_OF(outcome[AT(queue, ticket)]) != 0)
#else
#define HAS_ENDED(queue, ticket) \
    (CODE_OF(outcome[AT(queue, ticket)]) != 0 && outcome[AT(queue, ticket)] / 4 == LAP(ticket))
#endif

/* Whether the entry of a ticket is there. `tail` and `filled` say only that somebody has reserved
 * it, or has filled one behind it. */
#if defined(MUTANT_no_lap_bit)
#define IS_VALID(queue, ticket) (body[AT(queue, ticket)] != 0)
#elif defined(MUTANT_tail_believed) || defined(MUTANT_waits_for_entry)
#define IS_VALID(queue, ticket) ((ticket) < tail[queue])
#elif defined(MUTANT_filled_believed)
#define IS_VALID(queue, ticket) ((ticket) < filled[queue])
#else
#define IS_VALID(queue, ticket) (lap[AT(queue, ticket)] == LAP(ticket))
#endif

/* --- a worker ----------------------------------------------------------------------------------*/

/* Whether the tickets that FENCE waits for have ended. A byte alone cannot say so: the next lap may
 * have overwritten it, and then `floor` has passed the ticket. */
inline check_fence()
{
    d_step {
        is_ready = true;
#ifdef MUTANT_fence_looks_at_last
        looks = 1
#else
        looks = BATCH
#endif
    };
    do
    :: looks == 0 -> break
    :: else ->
#ifndef MUTANT_fence_ignores_floor
        bound = floor[0];
#endif
        if
        :: atomic {
            FENCE - looks < bound;
            looks--;
            REACH(fence_by_floor)
        }
        :: atomic {
            FENCE - looks >= bound;
            if
            :: HAS_ENDED(0, FENCE - looks) -> looks--
            :: else ->
                is_ready = false;
                looks = 0
            fi
        }
        fi
    od;
    bound = 0
}

#ifdef MUTANT_floor_without_lap_bit
#define LETS_FLOOR_PASS(queue, ticket) (CODE_OF(outcome[AT(queue, ticket)]) != 0)
#else
#define LETS_FLOOR_PASS(queue, ticket) HAS_ENDED(queue, ticket)
#endif

/* One try to advance `floor`, which was read into `bound`; says whether another try may help. It is
 * a CAS, because a store could take `floor` back to a ticket whose byte the next lap has
 * overwritten, where it would stay for ever. */
#ifdef WALK
inline advance_floor(queue, moved)
{
    d_step {
        other = head[queue]; /* a bound: an old one will do */
        looks = bound
    };
    do
    :: atomic {
        looks < other && LETS_FLOOR_PASS(queue, looks);
        looks++
    }
    :: else -> break
    od;
    atomic {
        moved = looks > bound;
        if
        :: floor[queue] < looks -> floor[queue] = looks
        :: else -> REACH(lost_floor)
        fi;
        looks = 0;
        other = 0
    }
}
#else
inline advance_floor(queue, moved)
{
    if
    :: LETS_FLOOR_PASS(queue, bound) ->
        atomic {
#ifdef MUTANT_floor_stored
            floor[queue] = bound + 1;
#else
            if
            :: floor[queue] == bound -> floor[queue] = bound + 1
            :: else -> REACH(lost_floor)
            fi;
#endif
            moved = true
        }
    :: else -> moved = false
    fi
}
#endif

/* A sealed head is one that nothing can be taken from. */
#ifdef CLOSE
#define CAN_TAKE(queue) (!((queue) == LAST && sealed))
#else
#define CAN_TAKE(queue) true
#endif

/* Rings that nobody has heard yet are never more than the workers that sleep: each of those wakes up
 * and looks, so that one more would only wake it again for nothing. */
#define RING                                                                                       \
    if                                                                                             \
    :: bell < armed -> bell++                                                                      \
    :: else                                                                                        \
    fi

/* A worker that takes an item rings if another worker sleeps and there is something for it. */
inline ring_for_others()
{
#ifdef FEED
    skip
#else
    if
    :: armed > 0 ->
        do
#ifdef RING_OWN_QUEUE
        :: other != queue && other < QUEUES -> other++
        :: other == queue ->
#else
        :: other < QUEUES ->
#endif
            bound = (CAN_TAKE(other) -> head[other] : NONE);
            atomic {
                if
                :: bound != NONE && IS_VALID(other, bound) ->
                    is_seen = true;
                    break
                :: else -> other++
                fi
            }
        :: else -> break
        od;
#if BATCH && !defined(MUTANT_ring_ignores_deferred)
        if
        :: !is_seen && deferred ->
            check_fence();
            is_seen = is_ready
        :: else
        fi;
#endif
        if
        :: is_seen ->
            atomic {
                RING;
                REACH(rang_for_other)
            }
        :: else
        fi;
        d_step {
            other = 0;
            bound = 0;
            is_ready = false;
            is_seen = false
        }
    :: else
    fi
#endif
}

#ifdef MUTANT_armed_as_bit
#define ARM armed = 1
#define DISARM armed = 0
#else
#define ARM armed++
#define DISARM armed--
#endif

/* Where a worker looks before it sleeps: the queues and, as the last, the deferred table. */
#define TABLE QUEUES
#if BATCH
#define SITES (QUEUES + 1)
#else
#define SITES QUEUES
#endif

#if CLAIMS > 1
#define MAY_CLAIM_TWO IS_VALID(queue, ticket + 1)
#else
#define MAY_CLAIM_TWO false
#endif

/* A place is free when the ticket of the lap before has ended by the kernel side's own record. A
 * producer that ignores flow control fills places that are not free. */
#if defined(MUTANT_no_floor_check) || defined(FEED)
#define IS_FREE true
#else
#define IS_FREE (until <= floor[queue] + PLACES)
#endif

/* A worker that polls blocks until there is something it can do, so that a queue that is stuck is a
 * deadlock. */
#if defined(POLL) && !HOSTILE && !defined(FEED)
#define IS_WORTH_A_LOOK(queue) \
    (CAN_TAKE(queue) && IS_VALID(queue, head[queue]) && \
     (head[queue] < floor[queue] + PLACES || LETS_FLOOR_PASS(queue, floor[queue])))
#else
#define IS_WORTH_A_LOOK(queue) (CAN_TAKE(queue) && IS_VALID(queue, head[queue]))
#endif

#if HOSTILE
#define IS_HONEST(queue) ((queue) == 0)
#else
#define IS_HONEST(queue) true
#endif
#if defined(MUTANT_copy_before_look) || defined(COPY_BEFORE_CLAIM)
#define COPY copy
#else
#define COPY body[AT(queue, ticket)]
#endif

proctype worker()
{
    byte queue;    /* or TABLE */
    byte ticket;   /* the head it saw, later the ticket it holds */
    byte until;    /* the ticket behind the last one it has claimed */
    byte bound;    /* the floor it saw; in ring_for_others a head */
    byte seen;     /* sites it has looked at since it is armed */
    byte looks, other;
    bool is_armed; /* it is counted in `armed` */
    bool is_ready, is_seen;
#if HOSTILE
    byte copy;
    bool is_bad;
#elif defined(MUTANT_copy_before_look) || defined(COPY_BEFORE_CLAIM)
    byte copy;
#endif
#ifdef COPY_BEFORE_CLAIM
    byte next_copy; /* of the second entry that it claims */
#endif
#ifdef MUTANT_sleepers_read_early
    bool wakes;
#endif

#ifdef POLL
end_idle: /* a worker that never sleeps */
#else
idle:
#endif
    /* A worker takes from any site where there is something, so that every policy is covered. Head
     * and entry are read in one step: if head moves between the two, the claim fails and nothing
     * has happened. A look that finds nothing changes nothing either, so that the worker may arm at
     * any time, unless LOOK_FIRST. */
    if
#ifdef STOP
    :: stopping -> goto leave
#endif
    :: atomic {
#ifdef MUTANT_copy_before_look
        copy = body[AT(0, head[0])];
        ticket = head[0]
    };
        if
        :: IS_VALID(0, ticket) -> goto found
        :: else -> goto lost
        fi
#else
        IS_WORTH_A_LOOK(0);
        ticket = head[0];
        goto found
    }
#endif
#if QUEUES > 1
    :: atomic {
        IS_WORTH_A_LOOK(1);
        queue = 1;
        ticket = head[1];
        goto found
    }
#endif
#if BATCH
    :: deferred -> goto visit
#endif
#ifdef POLL
    fi;
#else
    :: true
    fi;

#ifdef LOOK_FIRST
    goto last_look;
arm:
#endif
#ifndef MUTANT_armed_after_look
    /* A worker sleeps only if it finds nothing after it was counted: whoever publishes after its
     * look sees the count and rings. What it does not find matters here, so that head and entry are
     * two steps. */
    atomic {
        ARM;
        is_armed = true
    };
#endif

last_look:
#ifdef STOP
    if
    :: stopping -> goto leave
    :: else
    fi;
#endif
#ifdef ANY_ORDER
    if
    :: queue = 0
    :: queue = SITES - 1
    fi;
#else
    queue = 0;
#endif
site:
#if BATCH
    if
    :: queue == TABLE && deferred -> goto visit
    :: queue == TABLE && !deferred -> goto nothing
    :: else
    fi;
#endif
    atomic {
        if
        :: CAN_TAKE(queue) -> ticket = head[queue]
        :: else -> goto nothing
        fi
    };
    if
    :: IS_VALID(queue, ticket) -> goto found
    :: else
    fi;
nothing:
    atomic {
        ticket = 0;
        seen++;
        if
        :: seen < SITES ->
            queue = (queue + 1) % SITES;
            goto site
        :: else
        fi;
        seen = 0;
        queue = 0
    };
#ifdef LOOK_FIRST
    if
    :: !is_armed -> goto arm
    :: else
    fi;
#endif
#ifdef MUTANT_armed_after_look
    atomic {
        ARM;
        is_armed = true
    };
#endif

end_asleep: /* a session may end with its workers asleep */
    atomic {
        bell > 0;
#if defined(MUTANT_bell_resets) || defined(MUTANT_bell_resets_while_open)
        bell = 0;
#else
        bell--;
#endif
        REACH(woke_up)
    };
    atomic {
        DISARM;
        is_armed = false
    };
    goto idle;
#endif /* POLL */

found:
    atomic {
        until = ticket + 1;
        if
        :: MAY_CLAIM_TWO -> until++
        :: true
        fi
    };
#ifdef MUTANT_check_before_copy
    is_bad = queue == 1 && body[AT(queue, ticket)] != 1;
#endif
#ifdef COPY_BEFORE_CLAIM
    copy = body[AT(queue, ticket)];
#if CLAIMS > 1
    next_copy = body[AT(queue, ticket + 1)];
#endif
#endif
claim:
    /* `floor` is read and head is compared in one step: `floor` only rises, so that a claim which
     * an older value allows is allowed by this one, too. */
#ifdef MUTANT_double_claim
    if
    :: head[queue] == ticket /* load, compare, store */
    :: else -> goto lost
    fi;
    head[queue] = until;
#else
    atomic {
        if
        :: head[queue] == ticket && CAN_TAKE(queue) && IS_FREE ->
            head[queue] = until;
            if
            :: until == ticket + 2 -> REACH(claimed_two)
            :: else
            fi;
            if
            :: ticket >= START + PLACES -> REACH(next_lap)
            :: else
            fi;
            goto taken
        :: head[queue] == ticket && CAN_TAKE(queue) && !IS_FREE && until == ticket + 2 ->
            until--;
            goto claim
        :: head[queue] == ticket && CAN_TAKE(queue) && !IS_FREE && until == ticket + 1
        :: else ->
            REACH(lost_claim);
            goto lost
        fi
    };
    bound = floor[queue];
    advance_floor(queue, is_ready);
    if
    :: is_ready ->
        atomic {
            is_ready = false;
            bound = 0;
            goto claim
        }
    :: else ->
        atomic {
            if
            :: ticket >= START + PLACES && !HAS(ended[queue], ticket - PLACES) ->
                REACH(place_not_free)
            :: else -> REACH(missed_floor)
            fi;
            until = 0;
            bound = 0;
#ifdef POLL
            goto lost
#else
            if
            :: is_armed -> goto nothing
            :: else -> goto lost
            fi
#endif
        }
    fi;
#endif

#if BATCH
visit:
    /* An entry of the table is looked at where it lies and taken out only if it is ready. If a
     * worker took it out to look at it and put it back, a worker that ends the last ticket of the
     * batch meanwhile would not find it, and both might then sleep. */
#ifdef MUTANT_visit_removes
    atomic {
        if
        :: deferred -> deferred = false
        :: else -> goto lost
        fi
    };
#endif
    check_fence();
    atomic {
        if
        :: is_ready -> is_ready = false
        :: else ->
#ifdef MUTANT_visit_removes
            deferred = true;
#endif
#ifdef POLL
            goto lost
#else
            if
            :: is_armed -> goto nothing
            :: else -> goto lost
            fi
#endif
        fi
    };
    atomic {
#ifndef MUTANT_visit_removes
        if
        :: deferred -> deferred = false
        :: else ->
            REACH(lost_fence);
            goto lost
        fi;
#endif
        queue = 0;
        ticket = FENCE;
        until = 0 /* not FENCE + 1: the fence was copied when it was taken, and is ready now */
    };
#endif

taken:
    seen = 0;
    if
    :: is_armed ->
        atomic {
            DISARM;
            is_armed = false;
            REACH(found_when_armed)
        }
    :: else
    fi;
#if !defined(POLL) && !defined(MUTANT_no_ring_for_others)
    ring_for_others();
#endif

item:
#ifdef MUTANT_waits_for_entry
    lap[AT(queue, ticket)] == LAP(ticket);
#endif
#if HOSTILE
    /* The copy is the item: it is made once, and then checked. */
    if
    :: queue == 1 ->
#ifdef MUTANT_check_before_copy
        copy = body[AT(1, ticket)];
#else
#ifndef COPY_BEFORE_CLAIM
        is_bad = !IS_VALID(1, ticket);
        copy = body[AT(1, ticket)];
#endif
        is_bad = is_bad || copy != 1;
#endif
        atomic {
            if
            :: is_bad ->
                copy = 0;
                REACH(bad_copy);
                goto store_outcome
            :: else -> assert(copy == 1) /* what runs was checked */
            fi;
            copy = 0
        }
    :: else
    fi;
#endif
#ifdef CANCEL
    if
    :: queue == LAST && cancelling ->
        REACH(cancelled_by_worker);
        goto store_outcome
    :: else
    fi;
#endif
#if BATCH
    if
    :: queue == 0 && ticket == FENCE && until > 0 ->
        check_fence();
        if
        :: is_ready -> is_ready = false
        :: else ->
            atomic {
                deferred = true;
                REACH(fence_deferred);
                goto next_item
            }
        fi
    :: else
    fi;
#endif
#ifdef MUTANT_outcome_before_effects
    atomic {
        outcome[AT(queue, ticket)] = OUTCOME(ticket, CODE(queue, ticket));
        PUT(ended[queue], ticket)
    };
#endif
    /* The handler. An honest producer does not change an entry before its outcome is noted, so that
     * the copy is part of this step. */
    atomic {
        assert(!IS_HONEST(queue) || COPY == ticket + 1);
        assert(!IS_HONEST(queue) || lap[AT(queue, ticket)] == LAP(ticket));
        assert(!HAS(effects[queue], ticket));
        assert(ticket < START + PLACES || HAS(ended[queue], ticket - PLACES)); /* one a place */
#if BATCH
        if
        :: queue == 0 && ticket == FENCE ->
            looks = BATCH;
            do
            :: looks > 0 ->
                assert(HAS(ended[0], FENCE - looks) && HAS(effects[0], FENCE - looks));
                looks--
            :: else -> break
            od
        :: else
        fi;
#endif
#ifdef CLOSE
        assert(queue != LAST || state[LAST] != CLOSED);
#endif
        PUT(effects[queue], ticket)
    };
#if LONG != NONE
    if
    :: queue == LONG_AT && ticket == LONG -> HAS(ended[LONG_QUEUE], LONG_FOR)
    :: else
    fi;
#endif

store_outcome:
#ifdef MUTANT_sleepers_read_early
    wakes = sleepers > 0;
#endif
    atomic {
#ifndef MUTANT_outcome_before_effects
        assert(!HAS(ended[queue], ticket));
#endif
#ifdef CLOSE
        assert(queue != LAST || state[LAST] != CLOSED);
#endif
        if
#if HOSTILE
        :: is_bad ->
            outcome[AT(queue, ticket)] = OUTCOME(ticket, FAULT);
            is_bad = false
#endif
        :: HAS(effects[queue], ticket) ->
            outcome[AT(queue, ticket)] = OUTCOME(ticket, CODE(queue, ticket))
        :: else -> outcome[AT(queue, ticket)] = OUTCOME(ticket, CANCELLED)
        fi;
        PUT(ended[queue], ticket)
    };

next_item:
    atomic {
        ticket++;
#ifdef COPY_BEFORE_CLAIM
        copy = next_copy;
        next_copy = 0;
#endif
        if
        :: ticket < until -> goto item
        :: else
        fi
    };
#if WAITS != NONE
#ifdef MUTANT_sleepers_read_early
    if
    :: wakes ->
        wakes = false;
        wake = true
    :: else
    fi;
#else
    if
    :: sleepers > 0 -> wake = true
    :: else
    fi;
#endif
#endif
#ifdef EAGER
    if
    :: true
    :: bound = floor[queue];
        advance_floor(queue, is_ready);
        is_ready = false;
        bound = 0
    fi;
#endif

lost:
    atomic {
        queue = 0;
        ticket = 0;
        until = 0;
        seen = 0;
#if HOSTILE
        copy = 0;
        is_bad = false;
#elif defined(MUTANT_copy_before_look) || defined(COPY_BEFORE_CLAIM)
        copy = 0;
#endif
#ifdef COPY_BEFORE_CLAIM
        next_copy = 0;
#endif
#ifdef POLL
        goto end_idle
#else
        if
        :: is_armed -> goto last_look
        :: else -> goto idle
        fi
#endif
    };

#ifdef STOP
leave:
    if
    :: is_armed -> DISARM
    :: else
    fi;
    left++
#else
    skip
#endif
}

/* --- the producing process ---------------------------------------------------------------------*/

/* The outcome of a ticket is kept, and its effects are there. */
inline record(queue, ticket)
{
    assert(HAS(ended[queue], ticket) && HAS_ENDED(queue, ticket));
    assert(HAS(effects[queue], ticket) || CODE_OF(outcome[AT(queue, ticket)]) == CANCELLED);
    if
    :: CODE_OF(outcome[AT(queue, ticket)]) != DONE -> PUT(fault_notes[queue], ticket)
    :: else
    fi
}

/* Notes outcomes in the order of tickets, under the lock. A place is given out only when its ticket
 * is below `noted`: the next lap's outcome overwrites its byte. */
inline note(queue)
{
    atomic {
        !note_lock[queue];
        note_lock[queue] = true
    };
    do
#ifdef CLOSE
    :: noted[queue] == tail[queue] -> break
    :: else ->
        /* First the state: `closed` is stored after the last outcome, so that no outcome behind it
         * means that none will come. */
        was_closed = state[queue] == CLOSED;
        is_over = HAS_ENDED(queue, noted[queue]);
        if
        :: is_over ->
            d_step {
                record(queue, noted[queue])
            };
            noted[queue]++
        :: !is_over && was_closed ->
            atomic {
                assert(!HAS(effects[queue], noted[queue])); /* and never will: see the handler */
                assert(!HAS(ended[queue], noted[queue]));
                assert(!HAS(due, noted[queue]));
                PUT(fault_notes[queue], noted[queue]);
                REACH(cancelled_without_outcome)
            };
            noted[queue]++
        :: else -> break
        fi;
        is_over = false
#else
    :: atomic {
        HAS_ENDED(queue, noted[queue]);
#ifdef MUTANT_noted_before_note
        noted[queue]++
    };
        atomic {
            record(queue, noted[queue] - 1)
        }
#else
        record(queue, noted[queue])
    };
        noted[queue]++
#endif
    :: else -> break
#endif
    od;
#ifdef CLOSE
    is_over = false;
    was_closed = false;
#endif
    note_lock[queue] = false
}

#ifdef CLOSE
#define IS_OPEN (state[queue] == OPEN)
#define IS_CLOSED (state[queue] == CLOSED)
#else
#define IS_OPEN true
#define IS_CLOSED false
#endif

#ifdef DIES
#define MAY_DIE \
    if \
    :: queue == LAST -> \
        REACH(died); \
        goto dead \
    :: true \
    fi;
#else
#define MAY_DIE
#endif

/* The entry counts from the store of its lap bit on. Nobody reads the body before, so that both are
 * one step. */
inline fill(index)
{
#ifdef MUTANT_lap_before_body
    lap[AT(queue, index)] = LAP(index);
    body[AT(queue, index)] = index + 1
#else
    atomic {
        body[AT(queue, index)] = index + 1;
        lap[AT(queue, index)] = LAP(index);
#ifdef CLOSE
        if
        :: queue == LAST -> PUT(stored, index)
        :: else
        fi;
#endif
        if
        :: index > START && head[queue] < index && lap[AT(queue, index - 1)] != LAP(index - 1) ->
            REACH(published_ahead)
        :: else
        fi
    }
#endif
}

/* Fills the entries of its tickets in any order. */
inline fill_all()
{
#ifdef MUTANT_armed_read_before_entry
    is_ringing = armed > 0;
#endif
#ifdef MUTANT_bell_read_before_entry
    is_enough = bell >= armed && bell > 0;
#endif
    if
    :: count == 2 ->
        fill(ticket + 1);
        MAY_DIE
        fill(ticket)
    :: true ->
        fill(ticket);
        if
        :: count == 2 ->
            MAY_DIE
            fill(ticket + 1)
        :: else
        fi
    fi;
#ifdef MUTANT_filled_believed
    d_step {
        if
        :: filled[queue] < ticket + count -> filled[queue] = ticket + count
        :: else
        fi
    }
#endif
}

inline ring()
{
#ifdef POLL
    skip
#else
#ifndef MUTANT_armed_read_before_entry
    is_ringing = armed > 0;
#endif
    if
    :: is_ringing ->
        d_step {
#ifdef MUTANT_bell_read_before_entry
            if
            :: !is_enough -> bell++
            :: else
            fi;
#else
            RING;
#if defined(FEED) && !defined(MUTANT_feed_rings_once)
            if
            :: count == 2 -> RING
            :: else
            fi;
#endif
#endif
            is_ringing = false
        }
    :: else
    fi
#endif
}

/* A process with one thread that publishes. Its `tail` and `noted` are then its own, so that its
 * steps are the loads of outcomes and of the state, the stores of entries, and ringing. */
proctype lone_producer(byte queue; byte to_publish; byte count)
{
    byte ticket;
    bool is_ringing;
#ifdef MUTANT_bell_read_before_entry
    bool is_enough;
#endif
#ifdef CLOSE
    bool was_closed, is_over;
#endif

publish:
#ifdef CLOSE
    if
    :: to_publish > 0 && !IS_OPEN ->
        REACH(refused);
        goto finish
    :: else
    fi;
#endif
    do
    :: atomic {
        to_publish > 0 && tail[queue] + count <= noted[queue] + PLACES;
        ticket = tail[queue];
        tail[queue] = ticket + count;
        break
    }
    :: atomic {
        to_publish > 0 && tail[queue] + count > noted[queue] + PLACES &&
            HAS_ENDED(queue, noted[queue]);
        record(queue, noted[queue]);
        noted[queue]++;
        REACH(noted_for_room)
    }
#ifdef CLOSE
    :: to_publish > 0 && tail[queue] + count > noted[queue] + PLACES && !IS_OPEN ->
        REACH(refused);
        goto finish
#endif
    :: to_publish == 0 -> goto finish
    od;
    MAY_DIE
    fill_all();
    MAY_DIE
    ring();
    d_step {
        to_publish = to_publish - count;
        count = 1;
        ticket = 0
    };
    goto publish;

finish:
    /* Every ticket that was given out ends, or is known never to run. If one is lost, this waits
     * for ever, which Spin reports. Nobody waits for the notes, so all are made in one step. */
#ifdef CLOSE
    if
    :: queue == LAST ->
        do
        :: noted[queue] == tail[queue] -> break
        :: noted[queue] < tail[queue] && (HAS_ENDED(queue, noted[queue]) || IS_CLOSED) ->
            note(queue)
        od
    :: else
    fi;
#endif
    atomic {
        ended[queue] == BIT(tail[queue]) - BIT(START) || IS_CLOSED;
        do
        :: noted[queue] < tail[queue] ->
            assert(HAS_ENDED(queue, noted[queue]));
            record(queue, noted[queue]);
            noted[queue]++
        :: else -> break
        od
    };
    assert(to_publish == 0 || IS_CLOSED || !IS_OPEN);
dead:
    skip
}

#ifdef MUTANT_room_without_note
#define HAS_ROOM \
    (ticket + count <= START + PLACES || HAS_ENDED(queue, ticket + count - 1 - PLACES))
#else
#define HAS_ROOM (ticket + count <= limit + PLACES)
#endif
#ifdef MUTANT_accepted_means_ended
#define CAN_NOTE (!note_lock[queue] && HAS_ENDED(queue, noted[queue]))
#else
#define CAN_NOTE (!note_lock[queue] && (HAS_ENDED(queue, noted[queue]) || IS_CLOSED))
#endif

/* A thread of a process in which other threads publish or wait, too. */
proctype producer(byte queue; byte to_publish; byte count)
{
    byte ticket, limit;
    byte last; /* the ticket behind those it has reserved */
    bool is_ringing;
#ifdef MUTANT_bell_read_before_entry
    bool is_enough;
#endif
#ifdef CLOSE
    bool was_closed, is_over;
#endif

publish:
    if
    :: to_publish == 0 -> goto finish
    :: to_publish > 0 && !IS_OPEN ->
        REACH(refused);
        goto finish
    :: else
    fi;
    /* Both only rise: an old value makes the queue look fuller, or the CAS fail. */
    limit = noted[queue];
    ticket = tail[queue];
    if
    :: HAS_ROOM
    :: else ->
#ifdef MUTANT_room_without_note
        HAS_ROOM;
#else
        /* It spins, or sleeps as waiter() does. */
        CAN_NOTE || noted[queue] > limit;
        REACH(noted_for_room);
        note(queue);
#endif
        goto retry
    fi;
    atomic {
#ifdef MUTANT_reserve_by_addition
        ticket = tail[queue];
        tail[queue] = ticket + count
#else
        if
        :: tail[queue] == ticket -> tail[queue] = ticket + count
        :: else ->
            REACH(lost_reservation);
            goto retry
        fi
#endif
    };
    last = ticket + count;
    MAY_DIE
    fill_all();
    MAY_DIE
    ring();
    d_step {
        to_publish = to_publish - count;
        count = 1
    };
retry:
    atomic {
        limit = 0;
        ticket = 0;
        goto publish
    };

finish:
    /* Every ticket that was given out ends, or is known never to run. If one is lost, this waits
     * for ever, which Spin reports. */
    do
    :: noted[queue] >= last -> break
    :: noted[queue] < last && CAN_NOTE -> note(queue)
    od;
dead:
    skip
}

/* A producer that keeps no rule changes its entries at any time and rings or does not. */
#if HOSTILE
proctype hostile(byte writes)
{
    do
    :: writes == 0 -> break
    :: else ->
        writes--;
        if
        :: lap[PLACES] = 1 - lap[PLACES]
        :: lap[PLACES + 1] = 1 - lap[PLACES + 1]
        :: body[PLACES] = 1 - body[PLACES]
        :: body[PLACES + 1] = 1 - body[PLACES + 1]
        fi;
        if
        :: armed > 0 ->
            d_step {
                RING
            }
        :: true
        fi
    od
}
#endif

#if WAITS != NONE
/* A host thread that sleeps until a ticket has ended. */
proctype waiter()
{
    byte result;
#ifdef CLOSE
    bool was_closed;
#endif

end_no_ticket: /* the queue was closed before the ticket was given out */
    tail[0] > WAITS;
look:
#ifndef MUTANT_wake_read_late
    wake = false;
#endif
#ifndef MUTANT_look_before_sleepers
    sleepers++;
#endif
    if
    :: noted[0] > WAITS -> goto by_note
    :: else
    fi;
#ifdef MUTANT_outcome_read_before_closed
    if
    :: HAS_ENDED(0, WAITS)
    :: else ->
        if
        :: state[0] == CLOSED ->
            result = CANCELLED;
            goto out
        :: else -> goto sleep
        fi
    fi;
#elif defined(CLOSE)
    was_closed = state[0] == CLOSED;
#endif
    /* The byte is that of the ticket only if the place was not given out again, which the second
     * look at `noted` says. */
    atomic {
        if
        :: HAS_ENDED(0, WAITS) -> result = CODE_OF(outcome[AT(0, WAITS)])
#ifdef CLOSE
        :: !HAS_ENDED(0, WAITS) && was_closed ->
            result = CANCELLED;
#ifdef MUTANT_cancelled_without_second_look
            goto out
#endif
#endif
        :: else -> goto sleep
        fi
    };
#ifdef MUTANT_no_second_look_at_noted
    goto out;
#endif
    if
    :: noted[0] <= WAITS -> goto out
    :: else -> REACH(passed_by_noted)
    fi;
by_note:
    atomic {
        if
        :: HAS(fault_notes[0], WAITS) -> result = FAULT
        :: else -> result = DONE
        fi;
        REACH(waited_by_note)
    };
    goto out;
sleep:
#ifdef MUTANT_wake_read_late
    wake = false;
#endif
#ifdef MUTANT_look_before_sleepers
    sleepers++;
#endif
    atomic {
        wake;
        REACH(woken_host)
    };
    sleepers--;
    goto look;
out:
    atomic {
#ifdef CLOSE
        assert(result == CODE(0, WAITS) || !HAS(effects[0], WAITS));
        assert(result != DONE || HAS(effects[0], WAITS))
#else
        assert(result == CODE(0, WAITS) && HAS(effects[0], WAITS))
#endif
    };
#ifndef MUTANT_look_before_sleepers
    sleepers--
#endif
}
#endif

/* --- closing -----------------------------------------------------------------------------------*/

#ifdef CLOSE
/* Closes the last queue at any time. The deadline for holes may pass at any time, too. */
proctype closer()
{
    byte ticket;
#ifdef STOP
    byte sleeping;
#endif

#ifdef CANCEL
    cancelling = true;
#endif
    d_step {
        state[LAST] = DRAINING;
        ticket = START;
        do
        :: HAS(stored, ticket) ->
            PUT(due, ticket);
            ticket++
        :: else -> break
        od;
        ticket = 0
    };
#ifdef MUTANT_close_rings_once
    if
    :: armed > 0 ->
        d_step {
            RING
        }
    :: else
    fi;
#endif
    do
    :: ticket = head[LAST];
        if
#ifdef MUTANT_drain_leaves_valid
        :: false
#else
        :: IS_VALID(LAST, ticket) ->
            /* It rings for what it finds: a producer that died between its entry and its ring,
             * perhaps just now, has left an entry that no worker looks at. */
#if !defined(POLL) && !defined(MUTANT_close_rings_once)
            if
            :: armed > 0 ->
                d_step {
                    RING
                }
            :: else
            fi;
#endif
            head[LAST] != ticket || !IS_VALID(LAST, ticket)
#endif
        :: else ->
            /* All is taken, or a hole is given up. What becomes valid from here on is not taken:
             * the seal is one word with head. */
#ifdef MUTANT_drain_waits_for_tail
            tail[LAST] == ticket || IS_VALID(LAST, ticket);
#endif
#ifdef MUTANT_no_seal
            break
#else
            atomic {
                if
                :: head[LAST] == ticket ->
                    sealed = true;
                    if
                    :: tail[LAST] > ticket -> REACH(gave_up_hole)
                    :: else
                    fi;
                    break
                :: else
                fi
            }
#endif
        fi
    od;
#ifndef MUTANT_closed_before_outcomes
    /* What was taken ends; a fence that was deferred, too. */
    ticket = floor[LAST];
    do
    :: ticket < head[LAST] ->
        HAS_ENDED(LAST, ticket) || floor[LAST] > ticket;
        ticket++
    :: else -> break
    od;
#endif
    atomic {
        assert((due & ended[LAST]) == due);
        state[LAST] = CLOSED;
        ticket = 0
    };
#if WAITS != NONE && !defined(MUTANT_close_wakes_nobody)
    if
    :: sleepers > 0 -> wake = true
    :: else
    fi;
#endif
#ifdef STOP
#if QUEUES > 1
    noted[0] == START + ITEMS0;
#endif
    /* Every worker that is armed gets its own ring; one that arms later sees the flag in its last
     * look. */
    stopping = true;
    d_step {
        sleeping = armed;
        bell = (bell < sleeping -> sleeping : bell)
    };
    left == WORKERS
#endif
}
#endif

init
{
    byte started;
    atomic {
        do
        :: started < QUEUES ->
            tail[started] = START;
            noted[started] = START;
            head[started] = START;
            floor[started] = START;
            started++
        :: else -> break
        od;
        started = 0;
        do
        :: started < WORKERS ->
            run worker();
            started++
        :: else -> break
        od;
        started = 0;
        do
        :: started < PRODUCERS ->
#if PRODUCERS > 1 || WAITS != NONE
            run producer(0, ITEMS0 / PRODUCERS, FIRST);
#else
            run lone_producer(0, ITEMS0, FIRST);
#endif
            started++
        :: else -> break
        od;
#if HOSTILE
        body[PLACES] = 1;
        body[PLACES + 1] = 1;
        run hostile(HOSTILE);
#elif QUEUES > 1
        run lone_producer(1, ITEMS1, 1);
#endif
#if WAITS != NONE
        run waiter();
#endif
#ifdef CLOSE
        run closer();
#endif
        started = 0
    }
}
