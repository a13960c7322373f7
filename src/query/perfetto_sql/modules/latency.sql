-- How long each running stretch had waited for its CPU.
INCLUDE PERFETTO MODULE sched.runnable;

CREATE PERFETTO TABLE sched_latency_for_running_interval AS
SELECT ran.id AS thread_state_id, sched.id AS sched_id, ran.utid AS utid, waited.id AS runnable_latency_id,
    waited.dur AS latency_dur
FROM sched_previous_runnable_on_thread AS before
JOIN thread_state AS waited ON waited.id = before.prev_runnable_id
JOIN thread_state AS ran ON ran.id = before.id
JOIN sched ON sched.utid = ran.utid AND sched.ts = ran.ts AND sched.dur = ran.dur;
