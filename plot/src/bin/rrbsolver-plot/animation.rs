//! Animated PNG with a palette, which all pictures share.

use anyhow::{Context as _, Result, ensure};
use std::collections::HashMap;

use crate::waves::Picture;

/// Bits per channel that remain of a colour. Neighbouring pixels become equal, so the file becomes small.
const BITS: u32 = 5;
/// Number of colours of a palette.
const COLOURS: usize = 256;

/// Encodes the pictures, which are repeated without end, as animated PNG. `delay`: milliseconds per picture.
pub fn encode(pictures: &[Picture], delay: u16) -> Result<Vec<u8>> {
    let first = pictures.first().context("an animation needs a picture")?;
    let same = |picture: &Picture| (picture.width, picture.height) == (first.width, first.height);
    ensure!(pictures.iter().all(same), "the pictures of an animation must have the same size");
    let palette = palette(pictures);
    let mut nearest = HashMap::new();

    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, first.width, first.height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette.concat());
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    encoder.set_animated(u32::try_from(pictures.len()).context("too many pictures")?, 0).context("PNG")?;
    encoder.set_frame_delay(delay, 1000).context("PNG")?;
    let mut writer = encoder.write_header().context("PNG")?;
    for picture in pictures {
        let indices: Vec<u8> = picture
            .pixels
            .chunks_exact(3)
            .map(|pixel| {
                let colour = rounded(pixel);
                *nearest.entry(colour).or_insert_with(|| index_of_nearest(&palette, colour))
            })
            .collect();
        writer.write_image_data(&indices).context("PNG")?;
    }
    writer.finish().context("PNG")?;
    Ok(png)
}

/// The colour with fewer bits per channel; black and white are unchanged.
fn rounded(pixel: &[u8]) -> [u8; 3] {
    let most = (1u32 << BITS) - 1;
    [0, 1, 2].map(|k| {
        let level = (u32::from(pixel[k]) * most + 127) / 255;
        (level * 255 / most) as u8
    })
}

/// The most frequent colours, in a fixed order.
fn palette(pictures: &[Picture]) -> Vec<[u8; 3]> {
    let mut counts: HashMap<[u8; 3], u64> = HashMap::new();
    for pixel in pictures.iter().flat_map(|picture| picture.pixels.chunks_exact(3)) {
        *counts.entry(rounded(pixel)).or_default() += 1;
    }
    let mut colours: Vec<([u8; 3], u64)> = counts.into_iter().collect();
    colours.sort_unstable_by_key(|&(colour, count)| (std::cmp::Reverse(count), colour));
    colours.truncate(COLOURS);
    colours.into_iter().map(|(colour, _)| colour).collect()
}

fn index_of_nearest(palette: &[[u8; 3]], colour: [u8; 3]) -> u8 {
    let distance = |other: &[u8; 3]| (0..3).map(|k| u32::from(colour[k].abs_diff(other[k])).pow(2)).sum::<u32>();
    let best = (0..palette.len()).min_by_key(|&k| distance(&palette[k])).unwrap_or(0);
    u8::try_from(best).expect("a palette has at most 256 colours")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(colour: [u8; 3]) -> Picture {
        Picture { width: 3, height: 2, pixels: colour.repeat(6) }
    }

    #[test]
    fn pictures_follow_one_another() {
        let colours = [[255, 255, 255], [0, 0, 0], [255, 0, 0]];
        let png = encode(&colours.map(plain), 40).unwrap();
        let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let control = reader.info().animation_control().unwrap();
        assert_eq!((control.num_frames, control.num_plays), (3, 0));
        for colour in colours {
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut pixels).unwrap();
            assert_eq!(pixels, colour.repeat(6));
            let control = reader.info().frame_control().unwrap();
            assert_eq!((control.delay_num, control.delay_den), (40, 1000));
        }
    }

    #[test]
    fn rare_colours_become_the_nearest_of_the_palette() {
        // 256 colours that rounding does not change, twice; and another colour.
        let level = |k: u32| (k * 255 / 31) as u8;
        let mut pixels: Vec<u8> = (0..256).flat_map(|k| [level(k % 32), level(k / 32), 0].repeat(2)).collect();
        pixels.extend([255, 255, 255]);
        let count = (pixels.len() / 3) as u32;
        let picture = Picture { width: count, height: 1, pixels };
        let palette = palette(std::slice::from_ref(&picture));
        assert_eq!(palette.len(), COLOURS);
        assert!(!palette.contains(&[255, 255, 255]));
        assert_eq!(palette[usize::from(index_of_nearest(&palette, palette[7]))], palette[7]);
    }

    #[test]
    fn different_sizes_are_an_error() {
        let wide = Picture { width: 6, height: 1, pixels: vec![0; 18] };
        assert!(encode(&[plain([0; 3]), wide], 100).is_err());
        assert!(encode(&[], 100).is_err());
    }
}
