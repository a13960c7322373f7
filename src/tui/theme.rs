//! Colours and glyph sets: each [`Tone`] has one meaning, and a theme says how it looks.
//!
//! Screens ask for a tone, never for a colour. Themes are TOML (`assets/themes/`, compiled in). A user's own file is read the
//! same way, may be partial, and is refused with `file:line` when wrong. Knows nothing of screens or of the terminal's state.

use super::keymap::{KeymapError, line_of, unknown};
use ratatui::style::{Color, Modifier, Style};

macro_rules! tones {
    ($( $variant:ident $name:literal $doc:literal; )*) => {
        /// What a piece of the screen means.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Tone { $( #[doc = $doc] $variant, )* }

        const TONES: &[(Tone, &str)] = &[ $( (Tone::$variant, $name), )* ];
    };
}

tones! {
    Text "text" "Plain text.";
    Dim "dim" "Secondary text.";
    Strong "strong" "What must be seen first.";
    Title "title" "Title of a part of the screen.";
    Rule "rule" "Lines between the parts.";
    Header "header" "The line on top.";
    Key "key" "A key in a hint.";
    Selected "selected" "The selected row.";
    Cursor "cursor" "The cell under the cursor.";
    Running "running" "On a CPU.";
    Ready "ready" "Runnable after a wake-up, not running.";
    PushedOff "pushed-off" "Preempted, not running.";
    Blocked "blocked" "Uninterruptible, D.";
    Sleeping "sleeping" "Sleeping.";
    Other "other" "Stopped, traced, parked, dead.";
    Unknown "unknown" "Not known.";
    Loss "loss" "Events lost, or not recorded.";
    Idle "idle" "An idle CPU.";
    Mark "mark" "Marks and snapshots.";
}

/// How a tone looks in one theme; depth-reduced for the terminal at hand.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    /// Its name.
    pub name: String,
    /// No colours at all: states are told by letters.
    pub mono: bool,
    /// Only ASCII may be sent (the locale is not UTF-8).
    pub ascii: bool,
    /// By tone; `None` where the file says nothing.
    styles: Vec<Option<Style>>,
    processes: Vec<Color>,
}

/// How many colours the terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// None (NO_COLOR, TERM=dumb).
    Mono,
    /// The 16 of old.
    Sixteen,
    /// xterm's 256.
    Indexed,
    /// 24-bit.
    True,
}

/// The themes that ship with the program, in the order `next-theme` goes through.
pub const SHIPPED: [(&str, &str); 5] = [
    ("dark", include_str!("../../assets/themes/dark.toml")),
    ("light", include_str!("../../assets/themes/light.toml")),
    ("colour-blind", include_str!("../../assets/themes/colour-blind.toml")),
    ("16-colour", include_str!("../../assets/themes/16-colour.toml")),
    ("mono", include_str!("../../assets/themes/mono.toml")),
];

impl Depth {
    /// From the environment's NO_COLOR, COLORTERM and TERM (given as values so that tests need no environment).
    pub fn detect(no_color: Option<&str>, colorterm: Option<&str>, term: Option<&str>) -> Depth {
        if no_color.is_some_and(|v| !v.is_empty()) {
            return Depth::Mono;
        }
        let term = term.unwrap_or("");
        match (colorterm, term) {
            (_, "" | "dumb" | "vt100" | "vt220") => Depth::Mono,
            (Some("truecolor" | "24bit"), _) => Depth::True,
            (_, t) if t.contains("direct") => Depth::True,
            (_, t) if t.contains("256") => Depth::Indexed,
            _ => Depth::Sixteen,
        }
    }
}

/// True when the locale (first non-empty of LC_ALL, LC_CTYPE, LANG) is UTF-8.
pub fn locale_is_utf8(lc_all: Option<&str>, lc_ctype: Option<&str>, lang: Option<&str>) -> bool {
    let locale = [lc_all, lc_ctype, lang].into_iter().flatten().find(|v| !v.is_empty()).unwrap_or("");
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8") || locale.contains("utf-8@") || locale.contains("utf8@")
}

impl Theme {
    /// A shipped theme by name; `None` for an unknown name.
    pub fn shipped(name: &str, depth: Depth, ascii: bool) -> Option<Theme> {
        let name = match depth {
            Depth::Mono => "mono",
            Depth::Sixteen if name != "mono" => "16-colour",
            _ => name,
        };
        let (name, text) = SHIPPED.iter().find(|(n, _)| *n == name)?;
        // Shipped files are parsed by a test; a theme without styles is still usable.
        Theme::parse(text, name, depth, ascii).ok()
    }

    /// A user's own theme, called `name`: what the file leaves out is as in the shipped theme it calls its `base` (dark, if it
    /// calls none). `origin` names the file in errors. A terminal without colours gets the shipped theme for that: letters
    /// tell the states there.
    pub fn own(text: &str, origin: &str, name: &str, depth: Depth, ascii: bool) -> Result<Theme, KeymapError> {
        let (mut own, base) = Theme::read(text, origin, depth, ascii)?;
        let Some(base) = Theme::shipped(base.unwrap_or("dark"), depth, ascii) else { return Ok(own) };
        if depth == Depth::Mono {
            return Ok(base);
        }
        own.name = name.to_string();
        own.mono |= base.mono;
        for (style, base) in own.styles.iter_mut().zip(&base.styles) {
            *style = style.or(*base);
        }
        if own.processes.is_empty() {
            own.processes = base.processes;
        }
        Ok(own)
    }

    /// The theme after this one: the shipped ones in their order, then `own`, the one the program began with.
    pub fn next(&self, own: &Theme, depth: Depth) -> Theme {
        let is_own = !SHIPPED.iter().any(|(n, _)| *n == own.name);
        match SHIPPED.iter().position(|(n, _)| *n == self.name) {
            Some(last) if is_own && last + 1 == SHIPPED.len() => own.clone(),
            at => {
                let next = at.map_or(0, |i| i + 1) % SHIPPED.len();
                Theme::shipped(SHIPPED[next].0, depth, self.ascii).unwrap_or_else(|| self.clone())
            }
        }
    }

    /// Reads a theme file that stands alone; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str, depth: Depth, ascii: bool) -> Result<Theme, KeymapError> {
        Theme::read(text, origin, depth, ascii).map(|(theme, _)| theme)
    }

    /// A theme file, and the shipped theme it is based on, if it names one.
    fn read(text: &str, origin: &str, depth: Depth, ascii: bool) -> Result<(Theme, Option<&'static str>), KeymapError> {
        let fail = |span: Option<std::ops::Range<usize>>, what: String| KeymapError {
            origin: origin.to_string(),
            line: line_of(text, span.map_or(0, |s| s.start)),
            what,
        };
        let document = toml_edit::Document::parse(text).map_err(|e| fail(e.span(), e.message().trim().to_string()))?;
        let mut theme = Theme {
            name: origin.to_string(),
            mono: depth == Depth::Mono,
            ascii,
            styles: vec![None; TONES.len()],
            processes: Vec::new(),
        };
        let mut base = None;
        for (key, item) in document.iter() {
            let span = || document.key(key).and_then(|k| k.span()).or_else(|| item.span());
            match key {
                "mono" => {
                    theme.mono |= item.as_bool().ok_or_else(|| fail(span(), "mono is true or false".into()))?;
                }
                "base" => {
                    let name = item.as_str().unwrap_or("");
                    let names = || SHIPPED.iter().map(|(n, _)| *n);
                    let known = names().find(|n| *n == name);
                    base = Some(known.ok_or_else(|| fail(span(), unknown("theme", name, names())))?);
                }
                "processes" => {
                    let list = item.as_array().ok_or_else(|| fail(span(), "processes is a list of colours".into()))?;
                    for value in list {
                        let colour = value.as_str().and_then(parse_colour);
                        let colour = colour.ok_or_else(|| fail(value.span(), COLOUR_FORM.into()))?;
                        theme.processes.push(reduce(colour, depth));
                    }
                }
                name => {
                    let Some(at) = TONES.iter().position(|(_, n)| *n == name) else {
                        return Err(fail(span(), unknown("tone", name, TONES.iter().map(|(_, n)| *n))));
                    };
                    let style = parse_style(item, depth);
                    theme.styles[at] = Some(style.map_err(|what| fail(item.span(), format!("{name}: {what}")))?);
                }
            }
        }
        Ok((theme, base))
    }

    /// How `tone` looks.
    pub fn style(&self, tone: Tone) -> Style {
        self.styles[tone as usize].unwrap_or_default()
    }

    /// A stable colour for a process: the same name looks the same on every screen, host and day.
    pub fn process(&self, name: &str) -> Style {
        if self.mono || self.processes.is_empty() {
            return self.style(Tone::Text);
        }
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let at = ((hash >> 32) ^ hash) as usize % self.processes.len();
        Style::new().fg(self.processes[at])
    }
}

const COLOUR_FORM: &str =
    "a colour is \"#rrggbb\", a number 0..255 in quotes, or a name such as \"red\", \"light-blue\"";

fn parse_style(item: &toml_edit::Item, depth: Depth) -> Result<Style, String> {
    let mut style = Style::new();
    if let Some(text) = item.as_str() {
        return Ok(with_fg(style, parse_colour(text).ok_or(COLOUR_FORM)?, depth));
    }
    let table = item.as_table_like().ok_or("wants a colour, or { fg, bg, add }")?;
    for (key, value) in table.iter() {
        match key {
            "fg" => style = with_fg(style, value.as_str().and_then(parse_colour).ok_or(COLOUR_FORM)?, depth),
            "bg" => {
                let colour = value.as_str().and_then(parse_colour).ok_or(COLOUR_FORM)?;
                if depth != Depth::Mono {
                    style = style.bg(reduce(colour, depth));
                }
            }
            "add" => {
                for word in value.as_array().into_iter().flatten() {
                    style = style.add_modifier(match word.as_str() {
                        Some("bold") => Modifier::BOLD,
                        Some("dim") => Modifier::DIM,
                        Some("reverse") => Modifier::REVERSED,
                        Some("underline") => Modifier::UNDERLINED,
                        _ => return Err("add is a list of bold, dim, reverse, underline".into()),
                    });
                }
            }
            other => return Err(unknown("key", other, ["fg", "bg", "add"].into_iter())),
        }
    }
    Ok(style)
}

fn with_fg(style: Style, colour: Color, depth: Depth) -> Style {
    if depth == Depth::Mono { style } else { style.fg(reduce(colour, depth)) }
}

fn parse_colour(text: &str) -> Option<Color> {
    if let Some(hex) = text.strip_prefix('#') {
        let valid = hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let n = valid.then(|| u32::from_str_radix(hex, 16).ok()).flatten()?;
        return Some(Color::Rgb((n >> 16) as u8, (n >> 8) as u8, n as u8));
    }
    if let Ok(n) = text.parse::<u8>() {
        return Some(Color::Indexed(n));
    }
    text.parse().ok()
}

/// A colour in what the terminal has. 24-bit → the nearest of xterm's 6×6×6 cube or 24 greys, or of the 16 of old.
fn reduce(colour: Color, depth: Depth) -> Color {
    match (colour, depth) {
        (Color::Rgb(r, g, b), Depth::Indexed) => nearest_indexed(r, g, b),
        (Color::Rgb(r, g, b), Depth::Sixteen) => nearest_of_sixteen(r, g, b),
        (Color::Indexed(n @ 16..), Depth::Sixteen) => {
            let [r, g, b] = rgb_of_indexed(n);
            nearest_of_sixteen(r, g, b)
        }
        (colour, _) => colour,
    }
}

/// What xterm shows for a number from 16 on: the cube, then the greys.
fn rgb_of_indexed(n: u8) -> [u8; 3] {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match n {
        232.. => [8 + 10 * (n - 232); 3],
        _ => {
            let n = usize::from(n.saturating_sub(16));
            [LEVELS[n / 36 % 6], LEVELS[n / 6 % 6], LEVELS[n % 6]]
        }
    }
}

fn nearest_of_sixteen(r: u8, g: u8, b: u8) -> Color {
    // xterm's own values for them; terminals differ a little.
    const SIXTEEN: [(Color, [i32; 3]); 16] = [
        (Color::Black, [0, 0, 0]),
        (Color::Red, [205, 0, 0]),
        (Color::Green, [0, 205, 0]),
        (Color::Yellow, [205, 205, 0]),
        (Color::Blue, [0, 0, 238]),
        (Color::Magenta, [205, 0, 205]),
        (Color::Cyan, [0, 205, 205]),
        (Color::Gray, [229, 229, 229]),
        (Color::DarkGray, [127, 127, 127]),
        (Color::LightRed, [255, 0, 0]),
        (Color::LightGreen, [0, 255, 0]),
        (Color::LightYellow, [255, 255, 0]),
        (Color::LightBlue, [92, 92, 255]),
        (Color::LightMagenta, [255, 0, 255]),
        (Color::LightCyan, [0, 255, 255]),
        (Color::White, [255, 255, 255]),
    ];
    let wanted = [r, g, b].map(i32::from);
    let apart = |of: &[i32; 3]| of.iter().zip(wanted).map(|(a, b)| (a - b) * (a - b)).sum::<i32>();
    SIXTEEN.iter().min_by_key(|(_, rgb)| apart(rgb)).map_or(Color::Reset, |(colour, _)| *colour)
}

fn nearest_indexed(r: u8, g: u8, b: u8) -> Color {
    // xterm's cube levels: 0, 95, 135, 175, 215, 255; greys: 8 + 10 i.
    const LEVELS: [i32; 6] = [0, 95, 135, 175, 215, 255];
    let rgb = [i32::from(r), i32::from(g), i32::from(b)];
    let nearest = |v: i32| (0..6).min_by_key(|&i| (LEVELS[i] - v).abs()).unwrap_or(0);
    let cube = rgb.map(nearest);
    let apart = |of: [i32; 3]| of.iter().zip(rgb).map(|(a, b)| (a - b) * (a - b)).sum::<i32>();
    let grey = ((rgb.iter().sum::<i32>() / 3 - 8).max(0) / 10).min(23);
    let cube_off = apart(cube.map(|i| LEVELS[i]));
    if apart([8 + 10 * grey; 3]) < cube_off {
        Color::Indexed(232 + grey as u8)
    } else {
        Color::Indexed((16 + 36 * cube[0] + 6 * cube[1] + cube[2]) as u8)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shipped_themes_parse_and_name_every_tone() {
        for (name, text) in SHIPPED {
            let theme = Theme::parse(text, name, Depth::True, false).unwrap();
            for (_, tone) in TONES {
                assert!(text.lines().any(|l| l.starts_with(&format!("{tone} "))), "{name} lacks {tone}");
            }
            assert_eq!(theme.mono, name == "mono");
        }
    }

    #[test]
    fn states_have_colours_of_their_own_in_every_coloured_theme() {
        use Tone::*;
        for (name, text) in SHIPPED.iter().filter(|(n, _)| *n != "mono") {
            let theme = Theme::parse(text, name, Depth::True, false).unwrap();
            let tones = [Running, Ready, PushedOff, Blocked, Sleeping, Loss];
            for (i, a) in tones.iter().enumerate() {
                for b in &tones[i + 1..] {
                    assert_ne!(theme.style(*a).fg, theme.style(*b).fg, "{name}: {a:?} {b:?}");
                }
                assert!(
                    !theme.processes.iter().any(|c| Some(*c) == theme.style(*a).fg),
                    "{name}: a process looks {a:?}"
                );
            }
        }
    }

    #[test]
    fn mono_never_names_a_colour() {
        let theme = Theme::shipped("dark", Depth::Mono, true).unwrap();
        assert!(theme.mono);
        for (tone, _) in TONES {
            let style = theme.style(*tone);
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert_eq!(theme.process("x").fg, None);
    }

    #[test]
    fn the_environment_is_believed() {
        assert_eq!(Depth::detect(Some("1"), Some("truecolor"), Some("xterm-256color")), Depth::Mono);
        assert_eq!(Depth::detect(Some(""), None, Some("xterm-256color")), Depth::Indexed);
        assert_eq!(Depth::detect(None, Some("truecolor"), Some("xterm")), Depth::True);
        assert_eq!(Depth::detect(None, None, Some("linux")), Depth::Sixteen);
        assert_eq!(Depth::detect(None, None, None), Depth::Mono);
        assert!(locale_is_utf8(None, None, Some("C.UTF-8")));
        assert!(locale_is_utf8(Some(""), Some("de_DE.utf8@euro"), Some("C")));
        assert!(!locale_is_utf8(Some("C"), None, Some("C.UTF-8")), "LC_ALL comes first");
        assert!(!locale_is_utf8(None, None, None));
    }

    #[test]
    fn colours_reduce_to_the_nearest() {
        assert_eq!(nearest_indexed(0, 0, 0), Color::Indexed(16));
        assert_eq!(nearest_indexed(135, 215, 95), Color::Indexed(113));
        assert_eq!(nearest_indexed(88, 88, 88), Color::Indexed(240));
    }

    #[test]
    fn an_own_theme_needs_only_what_differs() {
        let text = "base = \"light\"\nrunning = \"#123456\"\nselected = { add = [\"reverse\"] }\n";
        let own = Theme::own(text, "/x/mine.toml", "mine", Depth::True, false).unwrap();
        let light = Theme::shipped("light", Depth::True, false).unwrap();
        assert_eq!((&*own.name, own.style(Tone::Running).fg), ("mine", Some(Color::Rgb(0x12, 0x34, 0x56))));
        assert_eq!(own.style(Tone::Selected), Style::new().add_modifier(Modifier::REVERSED), "nothing of light's");
        assert_eq!(own.style(Tone::Ready), light.style(Tone::Ready));
        assert_eq!(own.process("x"), light.process("x"));
        let dark = Theme::shipped("dark", Depth::True, false).unwrap();
        assert_eq!(Theme::own("", "t", "t", Depth::True, false).unwrap().style(Tone::Loss), dark.style(Tone::Loss));
        let mono = Theme::own(text, "t", "mine", Depth::Mono, false).unwrap();
        assert_eq!((mono.name.as_str(), mono.mono), ("mono", true), "letters, not colours");
        let few = Theme::own(text, "t", "mine", Depth::Sixteen, false).unwrap();
        assert_eq!(few.style(Tone::Running).fg, Some(Color::Black));
    }

    #[test]
    fn the_next_theme_goes_through_the_shipped_ones_and_the_own_one() {
        let own = Theme::own("", "t", "mine", Depth::True, false).unwrap();
        let mut at = own.clone();
        let mut names = Vec::new();
        for _ in 0..7 {
            at = at.next(&own, Depth::True);
            names.push(at.name.clone());
        }
        assert_eq!(names, ["dark", "light", "colour-blind", "16-colour", "mono", "mine", "dark"]);
        let dark = Theme::shipped("dark", Depth::True, false).unwrap();
        let mono = Theme::shipped("mono", Depth::True, false).unwrap();
        assert_eq!(mono.next(&dark, Depth::True).name, "dark");
    }

    #[test]
    fn colours_of_a_16_colour_terminal() {
        assert_eq!(nearest_of_sixteen(250, 10, 5), Color::LightRed);
        assert_eq!(nearest_of_sixteen(120, 130, 125), Color::DarkGray);
        assert_eq!(rgb_of_indexed(113), [135, 215, 95]);
        assert_eq!(rgb_of_indexed(240), [88, 88, 88]);
        assert_eq!(reduce(Color::Indexed(196), Depth::Sixteen), Color::LightRed);
        assert_eq!(reduce(Color::Indexed(3), Depth::Sixteen), Color::Indexed(3));
    }

    #[test]
    fn a_wrong_theme_names_its_line() {
        let error = |t: &str| Theme::parse(t, "t.toml", Depth::True, false).unwrap_err().to_string();
        assert_eq!(error("\nruning = \"red\"\n"), "t.toml:2: unknown tone \"runing\"; did you mean \"running\"?");
        assert!(error("running = \"#12345\"\n").starts_with("t.toml:1: running: a colour is"));
        assert_eq!(error("base = \"drak\""), "t.toml:1: unknown theme \"drak\"; did you mean \"dark\"?");
        assert_eq!(error("\n\nmono = 1"), "t.toml:3: mono is true or false");
        assert!(error("running = { fg = \"red\", ad = [] }\n").contains("did you mean \"add\""));
    }
}
