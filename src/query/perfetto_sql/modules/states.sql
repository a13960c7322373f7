-- States in words.
CREATE PERFETTO FUNCTION sched_state_to_human_readable_string(short_name STRING)
RETURNS STRING AS
WITH known(letter, words) AS (
    VALUES ('Running', 'Running'), ('R', 'Runnable'), ('R+', 'Runnable (Preempted)'), ('S', 'Sleeping'),
        ('D', 'Uninterruptible Sleep'), ('T', 'Stopped'), ('t', 'Traced'), ('X', 'Exit (Dead)'),
        ('Z', 'Exit (Zombie)'), ('x', 'Task Dead'), ('I', 'Idle'), ('K', 'Wakekill'), ('W', 'Waking'),
        ('P', 'Parked'), ('N', 'No Load')
)
SELECT coalesce((SELECT words FROM known WHERE letter = $short_name), $short_name);

CREATE PERFETTO FUNCTION sched_state_io_to_human_readable_string(sched_state STRING, io_wait BOOL)
RETURNS STRING AS
SELECT sched_state_to_human_readable_string($sched_state)
    || CASE WHEN $io_wait THEN ' (IO)' WHEN NOT $io_wait THEN ' (non-IO)' ELSE '' END;
