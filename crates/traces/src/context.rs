//! The place of a span in its trace, and how it is written in headers (W3C Trace Context, level 1; of level 2 the flag of random trace ids).
//!
//! What a client sends is believed only as far as it is well formed; anything else is as good as nothing, and the request begins a trace of
//! its own.

use std::sync::Arc;

/// The header that says to which trace a request belongs.
pub const PARENT_HEADER: &str = "traceparent";
/// The header in which tracing systems keep what else they want to know; passed on as it came.
pub const STATE_HEADER: &str = "tracestate";

/// Bytes of a `traceparent` of version 00.
const PARENT_BYTES: usize = 55;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 0x01;
/// The flag of a trace whose id is random in its right half.
const RANDOM: u8 = 0x02;
/// Most bytes of a `tracestate` that are passed on, with the commas between headers: as many as W3C asks for at least.
const STATE_BYTES_MAX: usize = 512;
/// Most members of one.
const STATE_MEMBERS_MAX: usize = 32;
/// Most bytes of a member's key, and of its value.
const MEMBER_BYTES_MAX: usize = 256;

/// The place of a span in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; not zero.
    pub trace_id: [u8; 16],
    /// The span; not zero.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// Whether whoever began the trace says that its id is random.
    pub is_random: bool,
    /// What tracing systems keep with it: the header `tracestate`, or nothing.
    pub state: Option<Arc<str>>,
}

impl TraceContext {
    /// The context that a client sent; `None` if what it sent is none. `states` are its headers `tracestate`, in their order: one that is
    /// malformed counts as absent.
    pub fn parse<'h>(parent: &[u8], states: impl IntoIterator<Item = &'h [u8]>) -> Option<Self> {
        let (version, rest) = parent.split_at_checked(2)?;
        let version = byte(version)?;
        let is_whole = match version {
            0xff => false,
            0x00 => parent.len() == PARENT_BYTES,
            // A later one may go on, behind another hyphen.
            _ => parent.len() == PARENT_BYTES || parent.get(PARENT_BYTES) == Some(&b'-'),
        };
        if !is_whole || [2, 35, 52].iter().any(|at| parent.get(*at) != Some(&b'-')) {
            return None;
        }
        let trace_id: [u8; 16] = bytes(rest.get(1..33)?)?;
        let span_id: [u8; 8] = bytes(rest.get(34..50)?)?;
        let flags = byte(rest.get(51..53)?)?;
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        Some(Self {
            trace_id,
            span_id,
            is_sampled: flags & SAMPLED != 0,
            is_random: flags & RANDOM != 0,
            state: state(states),
        })
    }

    /// The header `traceparent`.
    pub fn to_parent(&self) -> String {
        let flags =
            if self.is_sampled { SAMPLED } else { 0 } | if self.is_random { RANDOM } else { 0 };
        let trace = u128::from_be_bytes(self.trace_id);
        let span = u64::from_be_bytes(self.span_id);
        format!("00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

/// Two digits; capitals are none here.
fn byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    match digits {
        [high, low] => Some((digit(high)? << 4) | digit(low)?),
        _ => None,
    }
}

fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let mut pairs = digits.chunks_exact(2);
    for place in &mut out {
        *place = byte(pairs.next()?)?;
    }
    pairs.next().is_none().then_some(out)
}

/// All headers `tracestate` as one, if they are well formed and not long.
fn state<'h>(headers: impl IntoIterator<Item = &'h [u8]>) -> Option<Arc<str>> {
    let mut all = String::new();
    for header in headers {
        let text = std::str::from_utf8(header).ok()?;
        let comma = usize::from(!all.is_empty());
        if all.len() + comma + text.len() > STATE_BYTES_MAX {
            return None;
        }
        if comma > 0 {
            all.push(',');
        }
        all.push_str(text);
    }
    let members = || all.split(',').map(|member| member.trim_matches([' ', '\t']));
    let full = members().filter(|member| !member.is_empty());
    let is_good = full.clone().all(is_member) && full.clone().count() <= STATE_MEMBERS_MAX;
    (is_good && full.clone().next().is_some()).then(|| all.as_str().into())
}

fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let is_key = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
    };
    let is_value = |byte: u8| (0x20..=0x7e).contains(&byte) && byte != b'=';
    let begins =
        key.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    begins
        && key.len() <= MEMBER_BYTES_MAX
        && key.bytes().all(is_key)
        && (1..=MEMBER_BYTES_MAX).contains(&value.len())
        && value.bytes().all(is_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(parent: &str) -> Option<TraceContext> {
        TraceContext::parse(parent.as_bytes(), [])
    }

    #[test]
    fn a_context_comes_back_as_it_was_written() {
        let context = parse(GOOD).unwrap();
        assert!(context.is_sampled && !context.is_random);
        assert_eq!(context.to_parent(), GOOD);
        for flags in ["00", "01", "02", "03"] {
            let text = format!("{}{flags}", &GOOD[..53]);
            assert_eq!(parse(&text).unwrap().to_parent(), text);
        }
        // Flags that nobody knows are not passed on.
        assert_eq!(parse(&format!("{}ff", &GOOD[..53])).unwrap().to_parent()[53..], *"03");
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        for later in ["01", "cc", "fe"] {
            let text = format!("{later}{}", &GOOD[2..]);
            assert_eq!(parse(&text).unwrap().to_parent(), GOOD);
            assert!(parse(&format!("{text}-what-comes")).is_some());
            assert!(parse(&format!("{text}.what-comes")).is_none());
        }
    }

    #[test]
    fn what_is_malformed_is_no_context() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        for bad in [
            "",
            "00",
            "0",
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}0"),
            &format!("ff{}", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replace('-', "_"),
            &GOOD.replace('b', "g"),
            &GOOD.replace('b', "é"),
            &zero_trace,
            &zero_span,
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        for cut in 0..GOOD.len() {
            assert!(parse(&GOOD[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn states_are_passed_on_or_dropped_whole() {
        let of = |states: &[&str]| {
            let states = states.iter().map(|state| state.as_bytes());
            let context = TraceContext::parse(GOOD.as_bytes(), states).unwrap();
            context.state.map(|state| state.to_string())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[""]), None);
        assert_eq!(of(&["rojo=00f067aa0ba902b7"]), Some("rojo=00f067aa0ba902b7".into()));
        assert_eq!(of(&["a=1, b=2", "t@v=3 4"]), Some("a=1, b=2,t@v=3 4".into()));
        let many: Vec<String> = (0..33).map(|at| format!("k{at}=v")).collect();
        assert_eq!(of(&[&many.join(",")]), None);
        assert!(of(&[&many[..32].join(",")]).is_some());
        // As long as may be, in one header and in two.
        let first = format!("a={}", "v".repeat(256));
        let of_length = |length: usize| format!("b={}", "v".repeat(length - "b=".len()));
        let second = of_length(512 - first.len() - ",".len());
        let whole = format!("{first},{second}");
        assert_eq!(whole.len(), 512);
        assert_eq!(of(&[&whole]), Some(whole.clone()));
        assert_eq!(of(&[&first, &second]), Some(whole.clone()));
        assert_eq!(of(&[&format!("{whole} ")]), None);
        assert_eq!(of(&[&first, &of_length(second.len() + 1)]), None);
        let long = of_length("b=".len() + 257);
        for bad in ["a", "A=1", "=1", "a=", "a=b=c", "a=\u{e9}", "a=\n", &long] {
            assert_eq!(of(&[bad]), None, "{bad}");
        }
    }
}
