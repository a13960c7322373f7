-- For each finished running stretch: the ready stretch before it on the same thread, and the last one that a
-- thread (not an interrupt) had caused.
CREATE PERFETTO TABLE sched_previous_runnable_on_thread AS
WITH ready_or_running AS (
    SELECT id, utid, state = 'Running' AS running,
        waker_utid IS NOT NULL AND coalesce(irq_context, 0) != 1 AS woken_by_thread
    FROM thread_state
    WHERE state IN ('R', 'R+', 'Running') AND dur != -1
),
looked_back AS (
    SELECT id, running,
        max(iif(running, NULL, id)) OVER before AS prev_runnable_id,
        max(iif(woken_by_thread, id, NULL)) OVER before AS prev_wakeup_runnable_id
    FROM ready_or_running
    WINDOW before AS (PARTITION BY utid ORDER BY id)
)
SELECT id, prev_runnable_id, prev_wakeup_runnable_id FROM looked_back WHERE running ORDER BY id;
