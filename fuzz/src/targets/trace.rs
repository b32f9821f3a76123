//! Headers of traces, as any client may send them: no context, or one that is written as it was read.

use kallisto_traces::TraceContext;

/// What the headers are made of; a line break divides them.
pub(crate) const WORDS: &[&[u8]] = &[
    b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    b"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
    b"00000000000000000000000000000000",
    b"ff-",
    b"-",
    b"-03",
    b"\n",
    b"a=b",
    b"tenant@system=1",
    b",",
    b" ",
    b"\t",
    b"=",
    b"\xc3\xa9",
];

/// Most bytes of what is passed on for other systems.
const STATE_BYTES_MAX: usize = 512;

/// The target: `traceparent` first, then each `tracestate`.
pub(crate) fn run(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Some(parent) = lines.next() else { return };
    let states: Vec<&[u8]> = lines.collect();
    let Some(context) = TraceContext::parse(parent, states.iter().copied()) else { return };
    assert!(context.trace_id != [0; 16] && context.span_id != [0; 8]);
    let written = context.to_parent();
    // The version and the flags are ours; trace and span are the client's.
    assert_eq!(parent.get(2..53), written.as_bytes().get(2..53));
    if let Some(state) = &context.state {
        assert!(!state.is_empty() && state.len() <= STATE_BYTES_MAX);
        assert!(state.bytes().all(|byte| byte == b'\t' || (0x20..=0x7e).contains(&byte)));
        let joined = states.join(&b","[..]);
        assert!(joined.ends_with(state.as_bytes()), "it is what came");
    }
    let state = context.state.as_deref().map(str::as_bytes);
    assert_eq!(TraceContext::parse(written.as_bytes(), state), Some(context));
}
