//! The named limits of audit devices.

use std::time::Duration;

use crate::chain::LINKS_BYTES_MAX;

/// Most times that records were handed in to one device and wait; past it they are refused, and with them their requests.
pub const QUEUE_JOBS_MAX: usize = 16_384;
/// Most bytes of records that wait for one device. A record above this is refused: a listing of a
/// million names comes to 80 MiB, unless the device elides listings.
pub const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Bytes of records above which a group is written without waiting for more: what is hashed, and copied by the system, is then still near the
/// processor.
pub(crate) const GROUP_BYTES: usize = 256 << 10;
/// Most rooms for records that a device keeps for those who hand in next.
pub(crate) const SPARE_ROOMS_MAX: usize = 64;
/// Largest of them, in bytes.
pub(crate) const SPARE_ROOM_BYTES_MAX: usize = 128 << 10;
/// Most devices at a time: each is three threads and formats every record for itself.
pub const DEVICES_MAX: usize = 16;
/// Most options of a device.
pub const OPTIONS_MAX: usize = 32;
/// Longest option of a device, in bytes.
pub const OPTION_BYTES_MAX: usize = 4096;
/// Longest prefix of a record, in bytes.
pub const PREFIX_BYTES_MAX: usize = 64;
/// How long a device may take over one group before its records count as refused, when its options
/// do not say.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(2);
/// Longest deadline of a device.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Wait before a device that failed is tried again, at first; it doubles.
pub const RETRY_MIN: Duration = Duration::from_millis(100);
/// The same, at the most.
pub const RETRY_MAX: Duration = Duration::from_secs(5);
/// Most records that a device writes without a checkpoint that signs them.
pub const CHECKPOINT_RECORDS_MAX: u64 = 1000;
/// Longest time that a record waits for a checkpoint, while its device works.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// How often it is looked whether a device's head has to be kept as its anchor.
pub const ANCHOR_INTERVAL: Duration = Duration::from_secs(1);
/// How long a server that stops waits for its devices.
pub const END_MAX: Duration = Duration::from_secs(5);
/// Longest line of a file, for whoever reads one: the largest record that can wait, with its links.
pub const LINE_BYTES_MAX: usize = QUEUE_BYTES_MAX + LINKS_BYTES_MAX;
/// Largest record sent in one datagram, in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// What the kernel is asked to keep of what a receiver of records sends, in bytes; it takes twice that.
pub const RECEIVER_BYTES_BUFFERED: usize = 64 << 10;
/// Most bytes of it that are read away before one group.
pub const RECEIVER_BYTES_READ_MAX: usize = 1 << 20;
/// Audited request headers, at the most.
pub const HEADERS_MAX: usize = 64;

const _: () = assert!(RETRY_MIN.as_millis() < RETRY_MAX.as_millis());
const _: () = assert!(RECEIVER_BYTES_READ_MAX > 2 * RECEIVER_BYTES_BUFFERED);
