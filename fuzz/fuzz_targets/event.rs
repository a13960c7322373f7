//! Any record through any format: what is written decodes as one event without damage.
#![no_main]

use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::{BundleBuilder, EventEncoder, FieldFormat, FieldKind};
use dashcam::sched::event::Item;
use libfuzzer_sys::fuzz_target;

type Field = (u16, u16, bool, u8);

fuzz_target!(|input: (bool, Vec<Field>, &[u8])| {
    let (known, fields, record) = input;
    let names = ["comm", "pid", "tgid", "prio", "other"];
    let field = |(i, (offset, size, signed, kind)): (usize, Field)| FieldFormat {
        name: names[i % names.len()].into(),
        offset: offset.into(),
        size: size.into(),
        signed,
        kind: match kind % 7 {
            0 => FieldKind::Integer,
            1 => FieldKind::Device,
            2 => FieldKind::Integers(usize::from(kind) / 7),
            3 => FieldKind::Text,
            4 => FieldKind::DataLoc,
            5 => FieldKind::RelLoc,
            _ => FieldKind::Tail,
        },
    };
    let fields: Vec<FieldFormat> = fields.into_iter().enumerate().map(field).collect();
    let encoder = EventEncoder::new("sched", if known { "sched_process_exit" } else { "unheard_of" }, &fields);
    let (mut builder, mut out) = (BundleBuilder::new(), Vec::new());
    builder.event(1, 2, 0, &encoder, record);
    builder.finish(0, None, &mut out);
    let mut items = Vec::new();
    let decoded = Decoder::new().decode(&out, &mut NameTable::new(), &mut |item| items.push(item));
    assert!(decoded.is_ok() && matches!(items[..], [Item::Event(_)]));
});
