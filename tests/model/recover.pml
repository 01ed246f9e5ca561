/* A live queue whose kernel is lost: what the next kernel runs, runs again, and calls a FAULT.
 *
 * check.py runs this file through Spin, once for each configuration, and again with one
 * mistake at a time (MUTANT_x) to show that each mistake is found. queue.pml has the rules of a
 * kernel that lives; what is several steps there and does not depend on a loss is one step here.
 * Ghosts are variables that the code does not have; the assertions refer to them.
 *
 * A kernel is lost at any time, also between two steps of an item. Its stores of `taken` reach the
 * host late: one that is under way is lost with the kernel, or has just arrived. That outcomes come
 * late needs no step of its own: to the host, a kernel whose last outcome is under way looks like
 * one that is lost before it stores that outcome.
 */

/* --- configuration, from the command line ------------------------------------------------------*/

#ifndef PLACES
#define PLACES 2
#endif
#ifndef WORKERS
#define WORKERS 2 /* of each kernel */
#endif
#ifndef ITEMS
#define ITEMS 4 /* of all producers together, at most 7 */
#endif
#ifndef PRODUCERS
#define PRODUCERS 1 /* threads of one process, 1 or 2 */
#endif
#ifndef FIRST
#define FIRST 1 /* tickets in a producer's first reservation; each later one takes one ticket */
#endif
#ifndef LOSSES
#define LOSSES 1 /* how often a kernel may be lost */
#endif
#ifndef AHEAD
#define AHEAD 1 /* how far ahead of head the bound is raised */
#endif
#ifndef PURE
#define PURE 0 /* set of tickets whose handlers may run again */
#endif
/* STOP_AT_HOLE: the recovery goes through its window up to the first hole: tickets are taken in
 * order, so that nothing behind it ran. Without, it goes on to the end of the window. */

#define NONE 255

/* --- words -------------------------------------------------------------------------------------*/

#define BIT(ticket) (1 << (ticket))
#define HAS(set, ticket) (((set) >> (ticket)) & 1)
#define PUT(set, ticket) set = set | BIT(ticket)

#define LAP(ticket) (((ticket) / PLACES + 1) % 2)
#define PLACE(ticket) ((ticket) % PLACES)

/* Host memory, which stays when a kernel is lost. */
byte tail;            /* tickets reserved */
byte noted;           /* every ticket below has ended, and its outcome is noted */
bit lap[PLACES];      /* the entries: the lap bit, */
byte body[PLACES];    /* and ticket + 1 */
byte outcome[PLACES]; /* lap bit and code in one byte */
byte taken;           /* a bound: tickets from it on never ran */

#define DONE 1
#define FAULT 2 /* maybe_executed */
#define OUTCOME(ticket, code) (LAP(ticket) * 4 + (code))
#define HAS_ENDED(ticket) \
    (outcome[PLACE(ticket)] % 4 != 0 && outcome[PLACE(ticket)] / 4 == LAP(ticket))
#define IS_VALID(ticket) (lap[PLACE(ticket)] == LAP(ticket))

/* The kernel's own, lost with it. */
byte head;      /* next ticket to take */
byte floor;     /* every ticket below has ended */
byte covered;   /* a bound that is known to have reached the host */
byte under_way; /* a bound on its way to the host; 0: none */
bool is_alive = true;
byte running = WORKERS + 1; /* parts of the kernel that have not stopped */

/* --- ghosts ------------------------------------------------------------------------------------*/

byte ran;   /* set of tickets that ran */
byte ended; /* set of tickets that have an outcome */

/* Prints, the first time, that the search reached this step. check.py lists the steps that
 * each configuration must reach: an assertion at a step that is never reached proves nothing. */
#define REACH(what) \
    c_code { static int s; if (!s) { s = 1; printf("reached: " #what "\n"); } }

/* --- a kernel and its successors ---------------------------------------------------------------*/

/* Raises the bound in time, off the way of items. Items below it run only when it has arrived, as a
 * fence behind the store says. */
active proctype raiser()
{
    byte bound;

end_covered:
    do
    :: atomic {
        is_alive && head < ITEMS && head + AHEAD > covered && under_way == 0;
        bound = head + AHEAD;
        under_way = bound
    };
#ifndef MUTANT_no_fence_behind_taken
        under_way == 0; /* the fence; a loss ends it, too */
#endif
        atomic {
            if
            :: is_alive -> covered = bound
            :: else
            fi;
            bound = 0
        }
    :: !is_alive ->
        running--;
        atomic {
            is_alive;
            running++
        }
    od
}

/* The bus takes the store to the host at some time. */
active proctype bus()
{
end_quiet:
    do
    :: d_step {
        under_way > 0;
        taken = under_way;
        under_way = 0
    }
    od
}

#ifdef MUTANT_runs_above_bound
#define IS_COVERED true
#else
#define IS_COVERED (head < covered)
#endif

/* A ticket behind a hole may have got its outcome from the recovery. The kernel passes it over by
 * that outcome alone: its producer may have noted it and given its place to a ticket of the next
 * lap, so that its entry is not valid any more. The outcome says so only below floor + capacity:
 * above, it may be that of two laps before, which has the same bit. */
#if defined(MUTANT_forgets_ended) || defined(MUTANT_skips_only_valid)
#define IS_NEW(ticket) true
#else
#define IS_NEW(ticket) (!HAS_ENDED(ticket))
#endif

#define IS_LOST(where) \
    if \
    :: !is_alive -> \
        REACH(where); \
        goto lost \
    :: else \
    fi

active [WORKERS] proctype worker()
{
    byte ticket;

end_idle:
    if
    :: atomic {
        /* Taking is one step here; queue.pml has its parts. */
        is_alive && IS_NEW(head) && IS_VALID(head) && head < floor + PLACES && IS_COVERED;
        ticket = head;
        head++;
#ifdef MUTANT_skips_only_valid
        if
        :: HAS_ENDED(ticket) ->
            ticket = 0;
            goto end_idle
        :: else
        fi;
#endif
        assert(body[PLACE(ticket)] == ticket + 1)
    }
    :: atomic {
        is_alive && head >= floor + PLACES && HAS_ENDED(floor);
        floor++;
        goto end_idle
    }
#if !defined(MUTANT_forgets_ended) && !defined(MUTANT_skips_only_valid)
    :: atomic {
#ifdef MUTANT_skips_above_floor
        is_alive && !IS_NEW(head);
#else
        is_alive && !IS_NEW(head) && head < floor + PLACES;
#endif
        head++;
        REACH(passed_ended);
        goto end_idle
    }
#endif
    :: !is_alive -> goto lost
    fi;
    atomic {
        IS_LOST(lost_before_effects);
        assert(!HAS(ended, ticket));
        assert(!HAS(ran, ticket) || HAS(PURE, ticket));
        if
        :: HAS(ran, ticket) -> REACH(ran_again)
        :: else
        fi;
        PUT(ran, ticket)
    };
    atomic {
        IS_LOST(lost_before_outcome);
        assert(!HAS(ended, ticket));
        outcome[PLACE(ticket)] = OUTCOME(ticket, DONE);
        PUT(ended, ticket);
        ticket = 0;
        goto end_idle
    };
lost:
    atomic {
        ticket = 0;
        running--
    };
    atomic {
        is_alive;
        running++;
        goto end_idle
    }
}

/* --- the host ----------------------------------------------------------------------------------*/

inline fill(index)
{
    d_step {
        body[PLACE(index)] = index + 1;
        lap[PLACE(index)] = LAP(index)
    }
}

/* A thread that publishes. Reserving and noting are one step each: queue.pml has their parts. */
proctype producer(byte to_publish; byte count)
{
    byte ticket;

    do
    :: to_publish == 0 -> break
    :: atomic {
        to_publish > 0 && tail + count <= noted + PLACES;
        ticket = tail;
        tail = tail + count
    };
        if
        :: count == 2 ->
            fill(ticket + 1);
            fill(ticket)
        :: true ->
            fill(ticket);
            if
            :: count == 2 -> fill(ticket + 1)
            :: else
            fi
        fi;
        to_publish = to_publish - count;
        count = 1;
        ticket = 0
    :: atomic {
        to_publish > 0 && tail + count > noted + PLACES && HAS_ENDED(noted);
        assert(HAS(ended, noted));
        noted++
    }
    od;
    /* Every ticket ends. If one is lost, this waits for ever, which Spin reports. */
    ended == BIT(ITEMS) - 1
}

#ifdef MUTANT_tail_read_twice
#define UNTIL tail
#else
#define UNTIL until
#endif

/* Loses the kernel at any time, LOSSES times at most, and starts the next. Producers go on. */
proctype supervisor()
{
    byte losses, ticket, until, bound;
    byte first = NONE; /* the first ticket for the next kernel */

    do
    :: true -> break
    :: losses < LOSSES ->
        losses++;
        atomic {
            is_alive = false;
            if
            :: under_way > 0 ->
                taken = under_way;
                REACH(bound_arrived)
            :: true
            fi;
            under_way = 0
        };
        running == 0;
        bound = taken;
        /* Tickets of the window's end on are new ones. If `tail` were read again, a ticket that was
         * published meanwhile would be in no window. */
        until = tail;
        ticket = (UNTIL > PLACES -> UNTIL - PLACES : 0);
        floor = ticket;
        do
        :: ticket >= UNTIL -> break
        :: else ->
            if
            :: HAS_ENDED(ticket) -> goto next
            :: else
            fi;
            if
            :: !IS_VALID(ticket) ->
                REACH(hole); /* never ran */
#ifdef STOP_AT_HOLE
                first = (first == NONE -> ticket : first);
                break /* nor did those behind it: tickets are taken in order */
#endif
            :: else ->
                atomic {
                    assert(ticket < bound || !HAS(ran, ticket));
#ifdef MUTANT_runs_all_again
                    if
                    :: false
#else
                    if
                    :: ticket < bound && !HAS(PURE, ticket) ->
#endif
                        outcome[PLACE(ticket)] = OUTCOME(ticket, FAULT);
                        PUT(ended, ticket);
                        if
                        :: HAS(ran, ticket) -> REACH(fault_that_ran)
                        :: else -> REACH(fault_that_did_not)
                        fi;
                        goto next
                    :: else
                    fi
                }
            fi;
            first = (first == NONE -> ticket : first);
next:
            ticket++
        od;
        head = (first == NONE -> UNTIL : first);
        atomic {
            covered = bound;
            is_alive = true;
            first = NONE;
            ticket = 0;
            until = 0;
            bound = 0
        }
    od
}

init
{
    byte started;
    atomic {
        do
        :: started < PRODUCERS ->
            run producer(ITEMS / PRODUCERS, FIRST);
            started++
        :: else -> break
        od;
        run supervisor();
        started = 0
    }
}
