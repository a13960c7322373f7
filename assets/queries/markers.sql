-- What threads did inside each kind of marker
-- Markers (trace_marker, atrace form) joined with thread states: of the time inside "step", how much ran, was ready,
-- slept, was in D.
INCLUDE PERFETTO MODULE slices.with_context;
CREATE OR REPLACE PERFETTO VIEW _marked AS
SELECT ts, dur, utid, name FROM thread_slice WHERE dur > 0 AND depth = 0;
CREATE OR REPLACE PERFETTO VIEW _states AS SELECT ts, dur, utid, state FROM thread_state_clamped;
DROP TABLE IF EXISTS _inside;
CREATE VIRTUAL TABLE _inside USING SPAN_JOIN(_marked PARTITIONED utid, _states PARTITIONED utid);
SELECT CASE WHEN i.name GLOB '* [0-9]*' THEN substr(i.name, 1, instr(i.name, ' ') - 1) ELSE i.name END AS marker,
    t.name AS thread, sum(i.dur) / 1e6 AS ms,
    round(100.0 * sum(i.dur) FILTER (WHERE i.state = 'Running') / sum(i.dur), 1) AS running,
    round(100.0 * sum(i.dur) FILTER (WHERE i.state GLOB 'R*' AND i.state != 'Running') / sum(i.dur), 1) AS ready,
    round(100.0 * sum(i.dur) FILTER (WHERE i.state = 'S') / sum(i.dur), 1) AS sleeping,
    round(100.0 * sum(i.dur) FILTER (WHERE i.state GLOB 'D*') / sum(i.dur), 1) AS d
FROM _inside i JOIN thread t USING (utid)
GROUP BY 1, i.utid ORDER BY ms DESC;
