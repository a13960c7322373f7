//! The metadata file: what the streams' bytes mean, in TSDL.

use std::fmt::Write;

use super::events::{EVENTS, tsdl};
use crate::names::{NameId, NameTable, printable};
use crate::sched::event::{ClockSnapshot, SystemFact};

/// Text in TSDL's double quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The whole file.
pub fn metadata(
    uuid: &[u8; 16],
    clock: Option<&ClockSnapshot>,
    system: Option<&SystemFact>,
    names: &NameTable,
) -> String {
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    let uuid = format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    // Boot clock plus offset is time since 1970; without a snapshot it stays time since boot.
    let offset = clock.map_or(0, |c| c.real.saturating_sub(c.boot));
    let text = |id: NameId| quoted(&printable(names.bytes(id)));
    let (host, release, version) = match system {
        Some(s) => (text(s.host), text(s.release), text(s.version)),
        None => (quoted(""), quoted(""), quoted("")),
    };
    let mut out = format!(
        r#"/* CTF 1.8 */

trace {{
	major = 1;
	minor = 8;
	uuid = "{uuid}";
	byte_order = le;
	packet.header := struct {{
		integer {{ size = 32; align = 8; signed = 0; base = 16; }} magic;
		integer {{ size = 8; align = 8; signed = 0; }} uuid[16];
		integer {{ size = 32; align = 8; signed = 0; }} stream_id;
	}};
}};

env {{
	hostname = {host};
	domain = "kernel";
	sysname = "Linux";
	kernel_release = {release};
	kernel_version = {version};
	tracer_name = "lttng-modules";
	tracer_major = 2;
	tracer_minor = 13;
	tracer_patchlevel = 0;
	converted_by = "dashcam {crate_version}";
}};

clock {{
	name = "boottime";
	description = "CLOCK_BOOTTIME";
	freq = 1000000000;
	offset = {offset};
}};

typealias integer {{ size = 64; align = 8; signed = 0; map = clock.boottime.value; }} := time_t;

stream {{
	id = 0;
	packet.context := struct {{
		time_t timestamp_begin;
		time_t timestamp_end;
		integer {{ size = 64; align = 8; signed = 0; }} content_size;
		integer {{ size = 64; align = 8; signed = 0; }} packet_size;
		integer {{ size = 64; align = 8; signed = 0; }} packet_seq_num;
		integer {{ size = 64; align = 8; signed = 0; }} events_discarded;
		integer {{ size = 32; align = 8; signed = 0; }} cpu_id;
	}};
	event.header := struct {{
		integer {{ size = 16; align = 8; signed = 0; }} id;
		time_t timestamp;
	}};
}};
"#,
        crate_version = env!("CARGO_PKG_VERSION"),
    );
    for (id, name, fields) in EVENTS {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {};\n\tstream_id = 0;\n\tfields := struct {{\n{}\t}};\n}};\n",
            id as u16,
            tsdl(fields)
        );
    }
    out
}
