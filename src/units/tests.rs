#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>().map(|b| b.0).map_err(|e| e.to_string())
}

fn nanos(text: &str) -> Result<u64, String> {
    text.parse::<Span>().map(Span::nanos).map_err(|e| e.to_string())
}

#[test]
fn sizes_as_people_write_them() {
    assert_eq!(bytes("4 GiB"), Ok(4_294_967_296));
    assert_eq!(bytes("512KiB"), Ok(524_288));
    assert_eq!(bytes("64MB"), Ok(64_000_000));
    assert_eq!(bytes(" 1.5 gib "), Ok(1_610_612_736));
    assert_eq!(bytes("16M"), Ok(16_777_216));
    assert_eq!(bytes("0"), Ok(0));
    assert_eq!(bytes("0.0000001 TiB"), Ok(109_951), "rounded to whole bytes: 109951.16");
}

#[test]
fn wrong_sizes_say_what_is_allowed() {
    let units = "B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers of 1000)";
    assert_eq!(
        bytes("512").unwrap_err(),
        format!("\"512\" is not a size: the unit is missing: write \"512 MiB\", or one of {units}")
    );
    assert_eq!(bytes("4 gigs").unwrap_err(), format!("\"4 gigs\" is not a size: unknown unit \"gigs\"; use {units}"));
    assert_eq!(bytes("").unwrap_err(), "\"\" is not a size: it is empty");
    assert_eq!(bytes("-1 GiB").unwrap_err(), "\"-1 GiB\" is not a size: it is negative");
    assert_eq!(bytes("many").unwrap_err(), "\"many\" is not a size: it does not start with a number");
    assert_eq!(bytes("1.2.3 GiB").unwrap_err(), "\"1.2.3 GiB\" is not a size: \"1.2.3\" is not a plain decimal number");
    assert_eq!(bytes("99999999 TiB").unwrap_err(), "\"99999999 TiB\" is not a size: it is larger than 16 EiB");
    assert!(bytes("1 GiB 2 MiB").unwrap_err().contains("one number and one unit"));
}

#[test]
fn durations_as_people_write_them() {
    assert_eq!(nanos("60s"), Ok(60_000_000_000));
    assert_eq!(nanos("5m"), Ok(300_000_000_000));
    assert_eq!(nanos("500ms"), Ok(500_000_000));
    assert_eq!(nanos("1h30m"), Ok(5_400_000_000_000));
    assert_eq!(nanos("1 h 30 min"), Ok(5_400_000_000_000));
    assert_eq!(nanos("24 h"), Ok(86_400_000_000_000));
    assert_eq!(nanos("2d"), Ok(172_800_000_000_000));
    assert_eq!(nanos("1.5s"), Ok(1_500_000_000));
    assert_eq!(nanos("10µs"), Ok(10_000));
    assert_eq!(nanos("10us"), Ok(10_000));
    assert_eq!(nanos("0"), Ok(0));
}

#[test]
fn wrong_durations_say_what_is_allowed() {
    assert_eq!(
        nanos("60").unwrap_err(),
        "\"60\" is not a duration: the unit is missing: write \"60 s\", or one of d, h, m, s, ms, µs or ns"
    );
    assert_eq!(
        nanos("5 parsecs").unwrap_err(),
        "\"5 parsecs\" is not a duration: unknown unit \"parsecs\"; use d, h, m, s, ms, µs or ns"
    );
    assert!(nanos("30m1h").unwrap_err().ends_with("units must go from large to small, each once, as in \"1h30m\""));
    assert!(nanos("1m1m").unwrap_err().contains("each once"));
    assert!(nanos("1h30").unwrap_err().contains("the unit is missing: write \"30 s\""));
    assert!(nanos("-5m").unwrap_err().contains("negative"));
    assert!(nanos("999999d").unwrap_err().contains("584 years"));
    assert_eq!(nanos("1\u{1b}[2J").unwrap_err().matches('\u{1b}').count(), 0, "no raw control code in a message");
}

#[test]
fn shares() {
    assert_eq!("5 %".parse::<Share>().unwrap(), Share(0.05));
    assert_eq!("0.5%".parse::<Share>().unwrap(), Share(0.005));
    assert_eq!(Share(0.07).to_string(), "7 %");
    assert_eq!("5".parse::<Share>().unwrap_err().to_string(), "\"5\" is not a share: write percent, as in \"5 %\"");
    assert_eq!("101 %".parse::<Share>().unwrap_err().to_string(), "\"101 %\" is not a share: it is over 100 %");
}

#[test]
fn printed_exactly() {
    assert_eq!(Bytes(4 << 30).to_string(), "4 GiB");
    assert_eq!(Bytes(1536 << 20).to_string(), "1536 MiB");
    assert_eq!(Bytes(1000).to_string(), "1000 B");
    assert_eq!(Bytes(0).to_string(), "0 B");
    assert_eq!(Span::secs(5400).to_string(), "1h30m");
    assert_eq!(Span::secs(86_400).to_string(), "24h");
    assert_eq!(Span(Duration::from_nanos(1_000_000_500)).to_string(), "1s500ns");
    assert_eq!(Span::default().to_string(), "0s");
}

#[test]
fn serde_takes_text_and_tells_numbers_what_they_lack() {
    #[derive(Deserialize, Debug)]
    struct Doc {
        #[serde(default)]
        size: Bytes,
        #[serde(default)]
        span: Span,
    }
    let doc: Doc = toml::from_str("size = \"4 GiB\"\nspan = \"1m\"").unwrap();
    assert_eq!((doc.size, doc.span), (Bytes(4 << 30), Span::secs(60)));
    let err = toml::from_str::<Doc>("span = 60").unwrap_err();
    assert_eq!(err.message(), "60 has no unit: write a duration in quotes, such as \"60 s\"");
    let err = toml::from_str::<Doc>("size = true").unwrap_err();
    assert_eq!(err.message(), "invalid type: boolean `true`, expected a size in quotes, such as \"4 GiB\"");
    assert_eq!(serde_json::to_string(&Bytes(512 << 10)).unwrap(), "\"512 KiB\"");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,40}") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Span>();
        let _ = text.parse::<Share>();
    }

    #[test]
    fn number_like_text_never_panics(text in "[0-9.]{0,45} ?[a-zA-Zµ%]{0,4}") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Span>();
        let _ = text.parse::<Share>();
    }

    #[test]
    fn exact_print_reads_back(n in any::<u64>()) {
        prop_assert_eq!(Bytes(n).to_string().parse::<Bytes>().unwrap(), Bytes(n));
        let span = Span(Duration::from_nanos(n));
        prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
    }
}
