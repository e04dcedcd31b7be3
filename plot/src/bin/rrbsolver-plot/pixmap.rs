//! Conversion of binary portable pixmaps (P6, 8 bits per channel), which the example `bubbles` writes, to PNG.

use anyhow::{Context as _, Result, bail, ensure};

/// Converts the bytes of a pixmap to those of a PNG file.
pub fn to_png(pixmap: &[u8]) -> Result<Vec<u8>> {
    let (width, height, pixels) = read(pixmap)?;
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels)).context("PNG")?;
    Ok(png)
}

/// Width, height and RGB bytes.
fn read(pixmap: &[u8]) -> Result<(u32, u32, &[u8])> {
    // One blank separates the four words of the header from the pixels.
    let mut words = [""; 4];
    let mut rest = pixmap;
    for word in &mut words {
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace()).context("the header is incomplete")?;
        let length = rest[start..].iter().position(u8::is_ascii_whitespace).context("the header is incomplete")?;
        *word = std::str::from_utf8(&rest[start..start + length]).context("the header is not text")?;
        rest = &rest[start + length..];
    }
    let [magic, width, height, largest] = words;
    ensure!(magic == "P6", "not a binary portable pixmap: the file begins with {magic:?} instead of \"P6\"");
    ensure!(largest == "255", "the largest value is {largest} instead of 255");
    let extent = |name: &str, text: &str| match text.parse::<u32>() {
        Ok(extent @ 1..=65535) => Ok(extent),
        _ => bail!("{name} {text:?} is not in 1..65535"),
    };
    let (width, height) = (extent("width", width)?, extent("height", height)?);
    let pixels = &rest[1..];
    let expected = 3 * u64::from(width) * u64::from(height);
    ensure!(pixels.len() as u64 == expected, "{} bytes of pixels instead of {expected}", pixels.len());
    Ok((width, height, pixels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_unchanged() {
        let pixmap = b"P6\n2 1\n255\n\x01\x02\x03\xfd\xfe\xff";
        let png = to_png(pixmap).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (2, 1));
        assert_eq!(pixels, [1, 2, 3, 253, 254, 255]);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |pixmap: &[u8]| to_png(pixmap).unwrap_err().to_string();
        assert!(message(b"P5\n1 1\n255\n\0").contains("\"P5\""));
        assert!(message(b"P6\n1 1\n65535\n\0").contains("65535 instead of 255"));
        assert!(message(b"P6\n0 1\n255\n").contains("width \"0\""));
        assert!(message(b"P6\n1 1\n255\n\0\0").contains("2 bytes of pixels instead of 3"));
        assert!(message(b"P6\n1 1").contains("incomplete"));
    }
}
