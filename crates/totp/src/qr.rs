//! The QR code of a URL, as a PNG.

use data_encoding::BASE64;
use kallisto_api::Error;
use qrcode::{Color, QrCode};

/// Modules of empty space on each side (ISO/IEC 18004).
const QUIET_MODULES: usize = 4;
const BLACK: u8 = 0;
const WHITE: u8 = 255;

/// Draws a text as a square of so many pixels, in base 64.
///
/// # Errors
/// [`Error::Invalid`] when the text is too long for a QR code, or the square too small for it.
pub fn draw(text: &str, pixels: u32) -> Result<String, Error> {
    let code = QrCode::new(text.as_bytes());
    let code = code.map_err(|error| Error::invalid(format!("no QR code of this key: {error}")))?;
    let (side, width) = (pixels as usize, code.width());
    let whole = width + 2 * QUIET_MODULES;
    let scale = side / whole;
    if scale == 0 {
        return Err(Error::invalid(format!(
            "the QR code of this key needs a qr_size of {whole} at least"
        )));
    }
    // What is left of the square goes to its edges.
    let edge = (side - scale * width) / 2;
    let colors = code.to_colors();
    let is_dark = |x: usize, y: usize| {
        let module = |at: usize| at.checked_sub(edge).map(|at| at / scale).filter(|at| *at < width);
        let (Some(x), Some(y)) = (module(x), module(y)) else { return false };
        colors.get(y * width + x) == Some(&Color::Dark)
    };
    let rows = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
    let image: Vec<u8> = rows.map(|(x, y)| if is_dark(x, y) { BLACK } else { WHITE }).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixels, pixels);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&image));
    written.map_err(|error| Error::internal(&error))?;
    Ok(BASE64.encode(&file))
}
