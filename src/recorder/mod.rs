//! The recorder: kernel to disk, and nothing else.
//!
//! `run` starts and ends a recording; `pipeline` is the capture path (ring-buffer pages, or
//! looks at procfs, in; segment frames out);
//! `control` answers requests on a socket; [`signals`] takes signals over; [`places`] says where everything is. The
//! recorder never draws, never decodes what it wrote, and never waits for anybody who asks it something.

mod answers;
pub mod blocked;
mod capture;
pub mod clock;
pub mod control;
pub mod embedded;
pub mod encode;
pub mod encoder;
pub mod facts;
pub mod gauge;
pub mod haste;
pub mod head;
pub mod live;
pub mod machine;
pub mod names;
mod origin;
pub mod pipeline;
pub mod places;
pub mod plan;
pub mod reader;
pub mod reread;
pub mod run;
pub mod sample_encoder;
pub mod sampling;
pub mod settings;
mod settling;
mod setup;
pub mod signals;
pub mod snapshots;
pub mod status;
pub mod tracker;
pub mod triggers;
pub mod writer;
