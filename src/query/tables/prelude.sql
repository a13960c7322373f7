-- Tables that are filled at opening, and views over them. Names and columns as in Perfetto, ours marked so.

CREATE TABLE trace_bounds(start_ts INTEGER, end_ts INTEGER);
CREATE TABLE cpu(id INTEGER PRIMARY KEY, ucpu INTEGER, cpu INTEGER, cluster_id INTEGER, processor TEXT,
    machine_id INTEGER, capacity INTEGER, arg_set_id INTEGER, node INTEGER, package INTEGER, core INTEGER, online INTEGER);
CREATE TABLE clock_snapshot(id INTEGER PRIMARY KEY, ts INTEGER, clock_id INTEGER, clock_name TEXT,
    clock_value INTEGER, snapshot_id INTEGER, machine_id INTEGER);
CREATE TABLE metadata(id INTEGER PRIMARY KEY, name TEXT, key_type TEXT, int_value INTEGER, str_value TEXT);
CREATE TABLE stats(name TEXT, key INTEGER, idx INTEGER, severity TEXT, source TEXT, value INTEGER, description TEXT);
CREATE TABLE track_fact(id INTEGER PRIMARY KEY, name TEXT, kind TEXT, type TEXT, utid INTEGER, upid INTEGER,
    cpu INTEGER, unit TEXT);

-- Ours.
CREATE TABLE segment(id INTEGER PRIMARY KEY, path TEXT, sequence INTEGER, ts INTEGER, dur INTEGER, start_utc INTEGER,
    bytes INTEGER, events INTEGER, lost INTEGER, lost_unknown INTEGER, whole INTEGER);
CREATE TABLE snapshot(id INTEGER PRIMARY KEY, path TEXT, sequence INTEGER, ts INTEGER, dur INTEGER, start_utc INTEGER,
    bytes INTEGER, events INTEGER, lost INTEGER, lost_unknown INTEGER, whole INTEGER, label TEXT, reason TEXT, detail TEXT,
    asked_ts INTEGER, asked_dur INTEGER);
CREATE TABLE cgroup(id INTEGER PRIMARY KEY, path TEXT, processes INTEGER, threads INTEGER);
CREATE TABLE loss(cpu INTEGER, ts INTEGER, dur INTEGER, count INTEGER);
CREATE TABLE gap(ts INTEGER, dur INTEGER);

CREATE VIEW track AS
    SELECT id, name, type, NULL AS dimension_arg_set_id, NULL AS parent_id, NULL AS source_arg_set_id, NULL AS machine_id
    FROM track_fact;
CREATE VIEW thread_track AS
    SELECT id, name, type, NULL AS parent_id, NULL AS source_arg_set_id, NULL AS machine_id, utid
    FROM track_fact WHERE kind = 'slice' AND utid IS NOT NULL;
CREATE VIEW process_track AS
    SELECT id, name, type, NULL AS parent_id, NULL AS source_arg_set_id, NULL AS machine_id, upid
    FROM track_fact WHERE kind = 'slice' AND upid IS NOT NULL;
CREATE VIEW cpu_track AS
    SELECT id, name, type, NULL AS parent_id, NULL AS source_arg_set_id, NULL AS machine_id, cpu
    FROM track_fact WHERE kind = 'slice' AND cpu IS NOT NULL;
CREATE VIEW counter_track AS
    SELECT id, name, NULL AS parent_id, type, NULL AS dimension_arg_set_id, NULL AS source_arg_set_id,
        NULL AS machine_id, unit, NULL AS description
    FROM track_fact WHERE kind = 'counter';
CREATE VIEW cpu_counter_track AS
    SELECT id, name, type, NULL AS parent_id, NULL AS source_arg_set_id, NULL AS machine_id, unit,
        NULL AS description, cpu
    FROM track_fact WHERE kind = 'counter' AND cpu IS NOT NULL;
CREATE VIEW process_counter_track AS
    SELECT id, name, type, NULL AS parent_id, NULL AS source_arg_set_id, NULL AS machine_id, unit,
        NULL AS description, upid
    FROM track_fact WHERE kind = 'counter' AND upid IS NOT NULL;
CREATE VIEW counters AS
    SELECT v.*, t.name, t.unit FROM counter v JOIN counter_track t ON v.track_id = t.id;

CREATE VIEW slices AS SELECT * FROM slice;
CREATE VIEW raw AS SELECT * FROM ftrace_event;
CREATE VIEW instant AS SELECT ts, track_id, name, arg_set_id FROM slice WHERE dur = 0;
CREATE VIEW instants AS SELECT * FROM instant;

-- Ours: cut to the time asked for, the unfinished lasting to its end, or to the thread's, so that sums are never negative.
CREATE VIEW sched_clamped AS
    SELECT id, max(ts, trace_start()) AS ts,
        max(0, min(CASE WHEN dur < 0 THEN trace_end() ELSE ts + dur END, trace_end()) - max(ts, trace_start())) AS dur,
        cpu, utid, end_state, priority, upid
    FROM sched WHERE ts < trace_end() AND (dur < 0 OR ts + dur > trace_start());
CREATE VIEW thread_state_clamped AS
    SELECT id, max(ts, trace_start()) AS ts,
        max(0, min(CASE WHEN dur < 0 THEN coalesce((SELECT end_ts FROM thread t WHERE t.utid = thread_state.utid), trace_end())
            ELSE ts + dur END, trace_end()) - max(ts, trace_start())) AS dur,
        cpu, utid, state, io_wait, blocked_function, waker_utid, waker_id, irq_context, upid
    FROM thread_state WHERE ts < trace_end() AND (dur < 0 OR ts + dur > trace_start());
