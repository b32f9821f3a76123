//! Time-based one-time passwords (RFC 6238): keys, their URLs and QR codes, codes, and what was tried with a key.
//!
//! The engine at `totp/` and the second factor of logins have them. Nothing here keeps anything, knows the time, or draws a random byte.
#![forbid(unsafe_code)]

mod code;
mod factor;
mod key;
mod qr;
#[cfg(test)]
mod tests;
mod tries;
mod url;

pub use factor::{
    CodeVerdict, FactorOutcome, NewFactor, complete_method, judge_factor, make_factor,
};
pub use key::{CodeHash, KeyInput, TotpKey};
pub use qr::draw as draw_qr;
pub use tries::{JudgedCode, Tries};
pub use url::write as write_url;
