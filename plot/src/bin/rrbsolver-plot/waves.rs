//! The wave field as a map: land, depth shading, waves in diverging colours with a light from the north-west, the ship.

use anyhow::{Context as _, Result, bail};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::vti::Field;
use rrbsolver_plot::fonts::FAMILY;

pub struct Style {
    pub width: u32,
    pub range: Option<f64>,
    pub window: Option<[f64; 4]>,
    pub title: Option<String>,
}

type Rgb = [f32; 3];

const fn rgb(hex: u32) -> Rgb {
    [(hex >> 16 & 255) as f32, (hex >> 8 & 255) as f32, (hex & 255) as f32]
}

const LAND: Rgb = rgb(0xe6dfcd);
const COAST: Rgb = rgb(0x6d6655);
const HULL: Rgb = rgb(0xfdfdfb);
const HULL_EDGE: Rgb = rgb(0x20242a);
const INK: RGBColor = RGBColor(45, 50, 58);

/// Shallow to deep.
const DEPTH: [Rgb; 5] = [rgb(0xdff0e8), rgb(0xb4dadb), rgb(0x85c0cf), rgb(0x5a9ebc), rgb(0x347099)];
/// Waves: from nothing to the end of the scale.
const CREST: [Rgb; 4] = [rgb(0xf7f4e4), rgb(0xfde3a4), rgb(0xf59b42), rgb(0xb9331a)];
const TROUGH: [Rgb; 4] = [rgb(0x3b76a8), rgb(0x245695), rgb(0x15357a), rgb(0x0a1548)];

fn mix(a: Rgb, b: Rgb, t: f32) -> Rgb {
    [0, 1, 2].map(|k| a[k] + (b[k] - a[k]) * t)
}

fn palette(colours: &[Rgb], t: f32) -> Rgb {
    let at = t.clamp(0.0, 1.0) * (colours.len() - 1) as f32;
    let k = (at as usize).min(colours.len() - 2);
    mix(colours[k], colours[k + 1], at - k as f32)
}

fn depth_colour(depth: f32, deepest: f32) -> Rgb {
    palette(&DEPTH, depth / deepest)
}

/// t = zeta / range; small waves let the sea bed shine through.
fn wave_colour(bed: Rgb, t: f32) -> Rgb {
    let size = t.abs().min(1.0);
    mix(bed, palette(if t > 0.0 { &CREST } else { &TROUGH }, size), (1.25 * size.powf(0.65)).min(0.96))
}

/// What one point of the map shows: values smoothed by cubic B-splines over the wet cells around it.
struct Sample {
    wet: f32,
    zeta: f32,
    slope: [f32; 2],
    depth: f32,
    draft: f32,
}

/// Weights of the four nodes around a point at `t` in [0, 1) between the middle two, and their derivatives.
fn spline(t: f32) -> ([f32; 4], [f32; 4]) {
    let s = 1.0 - t;
    (
        [
            s * s * s / 6.0,
            (3.0 * t * t * t - 6.0 * t * t + 4.0) / 6.0,
            (3.0 * s * s * s - 6.0 * s * s + 4.0) / 6.0,
            t * t * t / 6.0,
        ],
        [-s * s / 2.0, (3.0 * t * t - 4.0 * t) / 2.0, -(3.0 * s * s - 4.0 * s) / 2.0, t * t / 2.0],
    )
}

/// (u, v) in cells, cell (i, j) having its middle at (i, j).
fn sample(field: &Field, u: f64, v: f64) -> Sample {
    let (i0, j0) = (u.floor() as i64, v.floor() as i64);
    let (a, b) = ((u - u.floor()) as f32, (v - v.floor()) as f32);
    let (wx, dx) = spline(a);
    let (wy, dy) = spline(b);
    let cell = |i: i64, j: i64| {
        let i = i.clamp(0, field.nx as i64 - 1) as usize;
        let j = j.clamp(0, field.ny as i64 - 1) as usize;
        j * field.nx + i
    };
    let mut out = Sample { wet: 0.0, zeta: 0.0, slope: [0.0; 2], depth: 0.0, draft: 0.0 };
    // Land stays sharp: its share is bilinear.
    for (di, wi) in [(0, 1.0 - a), (1, a)] {
        for (dj, wj) in [(0, 1.0 - b), (1, b)] {
            if field.depth[cell(i0 + di, j0 + dj)] > 0.0 {
                out.wet += wi * wj;
            }
        }
    }
    if out.wet == 0.0 {
        return out;
    }
    let (mut weight, mut mean) = (0.0, 0.0);
    for (n, along_y) in wy.iter().enumerate() {
        for (m, along_x) in wx.iter().enumerate() {
            let c = cell(i0 + m as i64 - 1, j0 + n as i64 - 1);
            if field.depth[c] > 0.0 {
                let w = along_x * along_y;
                weight += w;
                mean += w * field.zeta[c];
                out.depth += w * field.depth[c];
                out.draft += w * field.draft.as_ref().map_or(0.0, |draft| draft[c]);
            }
        }
    }
    let weight = f32::max(weight, 1e-6);
    mean /= weight;
    // Land carries the mean, so that a shore is no slope.
    for n in 0..4 {
        for m in 0..4 {
            let c = cell(i0 + m as i64 - 1, j0 + n as i64 - 1);
            let z = if field.depth[c] > 0.0 { field.zeta[c] } else { mean };
            out.slope[0] += dx[m] * wy[n] * z;
            out.slope[1] += wx[m] * dy[n] * z;
        }
    }
    out.zeta = mean;
    out.depth /= weight;
    out.draft /= weight;
    out
}

/// The value below which the given share of `values` lies.
fn quantile(mut values: Vec<f32>, share: f64) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    let k = ((values.len() - 1) as f64 * share) as usize;
    *values.select_nth_unstable_by(k, f32::total_cmp).1
}

/// 1, 2 or 5 times a power of ten, the smallest not below `least`.
fn round_up(least: f64) -> f64 {
    let unit = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|k| k * unit).into_iter().find(|s| *s >= least * (1.0 - 1e-9)).unwrap_or(10.0 * unit)
}

fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

struct Part {
    i: usize,
    j: usize,
    nx: usize,
    ny: usize,
}

fn part(field: &Field, window: Option<[f64; 4]>) -> Result<Part> {
    let Some([west, south, east, north]) = window else {
        return Ok(Part { i: 0, j: 0, nx: field.nx, ny: field.ny });
    };
    let index = |x: f64, axis: usize, n: usize| {
        ((x - field.origin[axis]) / field.cell[axis]).round().clamp(0.0, n as f64) as usize
    };
    let (i, i2) = (index(west, 0, field.nx), index(east, 0, field.nx));
    let (j, j2) = (index(south, 1, field.ny), index(north, 1, field.ny));
    if i2 <= i || j2 <= j {
        bail!("the window (west,south,east,north) shows no part of the map");
    }
    Ok(Part { i, j, nx: i2 - i, ny: j2 - j })
}

/// A picture as RGB bytes.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

/// The picture as PNG.
pub fn draw(field: &Field, style: &Style) -> Result<Vec<u8>> {
    let Picture { width, height, pixels } = paint(field, style)?;
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels)).context("PNG")?;
    Ok(png)
}

/// Wave height at the ends of the colour scale, from the waves in the window.
pub fn automatic_range(field: &Field, window: Option<[f64; 4]>) -> Result<f64> {
    let wet = wet_cells(field, &part(field, window)?);
    // The scale ends where waves are rare: cells with visible waves, the hull's own hollow left out.
    let free = wet.iter().filter(|c| field.draft.as_ref().is_none_or(|draft| draft[**c] <= 0.0));
    let heights: Vec<f32> = free.map(|c| field.zeta[*c].abs()).collect();
    let highest = heights.iter().copied().fold(0.0, f32::max);
    let visible: Vec<f32> = heights.into_iter().filter(|z| *z > 0.03 * highest).collect();
    Ok(f64::from(quantile(visible, 0.97)).max(1e-6))
}

fn wet_cells(field: &Field, part: &Part) -> Vec<usize> {
    let inside = (part.j..part.j + part.ny).flat_map(|j| (part.i..part.i + part.nx).map(move |i| j * field.nx + i));
    inside.filter(|c| field.depth[*c] > 0.0).collect()
}

/// Draws the picture.
pub fn paint(field: &Field, style: &Style) -> Result<Picture> {
    if let Some(range) = style.range
        && !(range > 0.0 && range.is_finite())
    {
        bail!("--range must be positive, got {range}");
    }
    let part = part(field, style.window)?;
    let wet = wet_cells(field, &part);
    let deepest = wet.iter().map(|c| field.depth[*c]).fold(1e-3, f32::max);
    let deepest = deepest.min(1.3 * quantile(wet.iter().map(|c| field.depth[*c]).collect(), 0.98));
    let hull = field.draft.as_ref().map_or(0.0, |draft| wet.iter().map(|c| draft[*c]).fold(0.0, f32::max));
    let range = match style.range {
        Some(range) => range,
        None => automatic_range(field, style.window)?,
    } as f32;

    let unit = style.width as f32 / 1600.0;
    let px = |x: f32| (x * unit).round() as i32;
    let (left, right, top, bottom) = (px(96.0), px(150.0), px(64.0), px(84.0));
    let map_width = style.width as i32 - left - right;
    let aspect = part.ny as f64 * field.cell[1] / (part.nx as f64 * field.cell[0]);
    let map_height = ((map_width as f64 * aspect).round() as i32).clamp(px(300.0), 16000);
    let (width, height) = (style.width, (map_height + top + bottom) as u32);

    let mut pixels = vec![255u8; (width * height * 3) as usize];
    let scale = [part.nx as f64 / map_width as f64, part.ny as f64 / map_height as f64];
    paint_map(field, &part, &mut pixels, width as usize, [left, top, map_width, map_height], scale, &|s, cell| {
        shade(s, cell, range, deepest, hull)
    });

    {
        let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
        let canvas = backend.into_drawing_area();
        let frame = Frame { left, top, width: map_width, height: map_height, unit };
        draw_current(&canvas, field, &part, &frame).context("drawing")?;
        annotate(&canvas, field, &part, style, &frame, range, deepest).context("drawing")?;
        canvas.present().context("drawing")?;
    }

    Ok(Picture { width, height, pixels })
}

/// Colours every pixel of the map from a few samples.
fn paint_map(
    field: &Field,
    part: &Part,
    pixels: &mut [u8],
    stride: usize,
    [left, top, width, height]: [i32; 4],
    scale: [f64; 2],
    colour: &dyn Fn(&Sample, f64) -> Rgb,
) {
    let fine = (scale[0].ceil() as usize).clamp(2, 4);
    for row in 0..height {
        for column in 0..width {
            let mut sum = [0.0; 3];
            for b in 0..fine {
                for a in 0..fine {
                    let x = column as f64 + (a as f64 + 0.5) / fine as f64;
                    let y = (height - row - 1) as f64 + (b as f64 + 0.5) / fine as f64;
                    let (u, v) = (part.i as f64 + x * scale[0] - 0.5, part.j as f64 + y * scale[1] - 0.5);
                    let c = colour(&sample(field, u, v), scale[0]);
                    sum = [0, 1, 2].map(|k| sum[k] + c[k]);
                }
            }
            let at = 3 * ((top + row) as usize * stride + (left + column) as usize);
            for k in 0..3 {
                pixels[at + k] = (sum[k] / (fine * fine) as f32).round().clamp(0.0, 255.0) as u8;
            }
        }
    }
}

fn shade(s: &Sample, cells_a_pixel: f64, range: f32, deepest: f32, hull: f32) -> Rgb {
    // The shore line is about two pixels wide at every scale, and never wider than half a cell.
    let line = (2.0 * cells_a_pixel).min(0.5) as f32;
    if s.wet < 0.5 {
        return if s.wet > 0.5 - line { COAST } else { LAND };
    }
    if hull > 0.0 && s.draft > 0.25 * hull {
        return if s.draft < 0.42 * hull { HULL_EDGE } else { HULL };
    }
    let colour = wave_colour(depth_colour(s.depth, deepest), s.zeta / range);
    // Lit from the north-west; a slope of the scale's range over five cells is at full light.
    let light = ((s.slope[0] - s.slope[1]) / (range / 5.0) * 0.5).clamp(-1.0, 1.0);
    if light > 0.0 { mix(colour, [255.0; 3], 0.30 * light) } else { mix(colour, [10.0, 22.0, 50.0], -0.34 * light) }
}

struct Frame {
    left: i32,
    top: i32,
    width: i32,
    height: i32,
    unit: f32,
}

type Canvas<'a> = DrawingArea<BitMapBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<()>;

/// Draws an arrow per 80 pixels in the direction of the current. The longest arrow shows the fastest current of the
/// map.
fn draw_current(canvas: &Canvas, field: &Field, part: &Part, frame: &Frame) -> Drawn {
    let Some([u, v]) = &field.current else { return Ok(()) };
    let speed = |c: usize| u[c].hypot(v[c]);
    // Narrow or shallow places can have a far larger speed than the rest.
    let fastest = quantile(wet_cells(field, part).iter().map(|c| speed(*c)).collect(), 0.98);
    if fastest <= 0.0 {
        return Ok(());
    }
    let spacing = (80.0 * frame.unit).max(20.0);
    let longest = 0.8 * spacing;
    let style = RGBColor(20, 40, 90).mix(0.75).stroke_width((2.0 * frame.unit).round().max(1.0) as u32);
    for row in 0..(frame.height as f32 / spacing) as i32 {
        for column in 0..(frame.width as f32 / spacing) as i32 {
            let (x, y) = ((column as f32 + 0.5) * spacing, (row as f32 + 0.5) * spacing);
            let i = part.i + (x / frame.width as f32 * part.nx as f32) as usize;
            let j = part.j + ((1.0 - y / frame.height as f32) * part.ny as f32) as usize;
            let c = j.min(field.ny - 1) * field.nx + i.min(field.nx - 1);
            let length = longest * (speed(c) / fastest).min(1.0);
            if field.depth[c] <= 0.0 || length < 0.1 * longest {
                continue;
            }
            let (along_x, along_y) = (u[c] / speed(c), -v[c] / speed(c));
            let at = |ahead: f32, aside: f32| {
                let (dx, dy) = (ahead * along_x - aside * along_y, ahead * along_y + aside * along_x);
                (frame.left + (x + dx).round() as i32, frame.top + (y + dy).round() as i32)
            };
            let (tip, wing) = (length / 2.0, 0.12 * longest);
            canvas.draw(&PathElement::new(vec![at(-tip, 0.0), at(tip, 0.0)], style))?;
            canvas.draw(&PathElement::new(vec![at(tip - wing, wing), at(tip, 0.0), at(tip - wing, -wing)], style))?;
        }
    }
    Ok(())
}

fn annotate(
    canvas: &Canvas,
    field: &Field,
    part: &Part,
    style: &Style,
    frame: &Frame,
    range: f32,
    deepest: f32,
) -> Drawn {
    let px = |x: f32| (x * frame.unit).round() as i32;
    let font = |size: f32| (FAMILY, f64::from(size * frame.unit)).into_font().color(&INK);
    let (right, below) = (frame.left + frame.width, frame.top + frame.height);
    canvas.draw(&Rectangle::new([(frame.left - 1, frame.top - 1), (right, below)], INK.stroke_width(1)))?;

    let title = style
        .title
        .clone()
        .unwrap_or_else(|| field.time.map_or(String::new(), |t| format!("Surface elevation at t = {} s", plain(t))));
    canvas.draw_text(
        &title,
        &font(30.0).pos(Pos::new(HPos::Left, VPos::Center)),
        (frame.left, frame.top - px(32.0)),
    )?;

    // Axes in metres, or in kilometres where the map is large.
    let extent = part.nx as f64 * field.cell[0];
    let (per_unit, name) = if extent > 4000.0 { (1000.0, "km") } else { (1.0, "m") };
    for (axis, cells, first, pixels) in
        [(0, part.nx, part.i, frame.width as f64), (1, part.ny, part.j, frame.height as f64)]
    {
        let begin = field.origin[axis] + first as f64 * field.cell[axis];
        let end = begin + cells as f64 * field.cell[axis];
        let step = round_up((end - begin) / (pixels / f64::from(px(150.0))).max(1.0));
        let mut k = (begin / step - 1e-9).ceil();
        while k * step <= end + 1e-9 * step {
            let along = ((k * step - begin) / (end - begin) * pixels).round() as i32;
            let label = plain(k * step / per_unit);
            if axis == 0 {
                let x = frame.left + along;
                canvas.draw(&PathElement::new(vec![(x, below), (x, below + px(7.0))], INK))?;
                canvas.draw_text(&label, &font(22.0).pos(Pos::new(HPos::Center, VPos::Top)), (x, below + px(12.0)))?;
            } else {
                let y = below - along;
                canvas.draw(&PathElement::new(vec![(frame.left - px(8.0), y), (frame.left - 1, y)], INK))?;
                canvas.draw_text(
                    &label,
                    &font(22.0).pos(Pos::new(HPos::Right, VPos::Center)),
                    (frame.left - px(13.0), y),
                )?;
            }
            k += 1.0;
        }
    }
    canvas.draw_text(
        name,
        &font(22.0).pos(Pos::new(HPos::Center, VPos::Top)),
        (frame.left + frame.width / 2, below + px(44.0)),
    )?;

    // Two colour scales: waves (seen over water of half the depth) and still-water depth.
    let (bar, width) = (right + px(28.0), px(26.0));
    let half = frame.height / 2;
    let middle = depth_colour(deepest / 2.0, deepest);
    let range = f64::from(range);
    let wave = |t: f64| wave_colour(middle, (2.0 * t - 1.0) as f32);
    // Neighbours of 1, 2, 5, 10 differ by a factor 2.5 at most: there is a mark on both sides of 0.
    let step = round_up(range / 2.6);
    let ticks: Vec<f64> = (-3..=3).map(|k| f64::from(k) * step).filter(|z| z.abs() <= range * 1.0001).collect();
    let labels: Vec<(f64, String)> = ticks.into_iter().map(|z| ((z / range + 1.0) / 2.0, plain(z))).collect();
    colour_bar(
        canvas,
        [bar, frame.top + px(34.0), width, half - px(64.0)],
        &wave,
        &labels,
        "waves [m]",
        frame.unit,
        &INK,
    )?;
    let deepest = f64::from(deepest);
    let depth = |t: f64| depth_colour(((1.0 - t) * deepest) as f32, deepest as f32);
    let step = round_up(deepest / 5.0);
    let labels: Vec<(f64, String)> = (0..=5)
        .map(|k| f64::from(k) * step)
        .filter(|h| *h <= deepest * 1.0001)
        .map(|h| (1.0 - h / deepest, plain(h)))
        .collect();
    colour_bar(
        canvas,
        [bar, frame.top + half + px(34.0), width, half - px(36.0)],
        &depth,
        &labels,
        "depth [m]",
        frame.unit,
        &INK,
    )
}

/// A vertical scale, its lower end t = 0; labels are (t, text).
fn colour_bar(
    canvas: &Canvas,
    [x, y, width, height]: [i32; 4],
    colour: &dyn Fn(f64) -> Rgb,
    labels: &[(f64, String)],
    title: &str,
    unit: f32,
    ink: &RGBColor,
) -> Drawn {
    let px = |x: f32| (x * unit).round() as i32;
    let font = |size: f32| (FAMILY, f64::from(size * unit)).into_font().color(ink);
    for row in 0..height {
        let c = colour((f64::from(height - row) - 0.5) / f64::from(height)).map(|v| v.round() as u8);
        canvas.draw(&Rectangle::new([(x, y + row), (x + width, y + row + 1)], RGBColor(c[0], c[1], c[2]).filled()))?;
    }
    canvas.draw(&Rectangle::new([(x - 1, y - 1), (x + width, y + height)], ink.stroke_width(1)))?;
    for (t, label) in labels {
        let at = y + height - (t * f64::from(height)).round() as i32;
        canvas.draw(&PathElement::new(vec![(x + width, at), (x + width + px(6.0), at)], ink))?;
        canvas.draw_text(label, &font(22.0).pos(Pos::new(HPos::Left, VPos::Center)), (x + width + px(11.0), at))?;
    }
    canvas.draw_text(title, &font(22.0).pos(Pos::new(HPos::Left, VPos::Center)), (x - px(2.0), y - px(22.0)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(nx: usize, ny: usize, zeta: impl Fn(usize, usize) -> f32, depth: f32) -> Field {
        Field {
            nx,
            ny,
            origin: [0.0, 0.0],
            cell: [2.0, 2.0],
            time: None,
            zeta: (0..nx * ny).map(|c| zeta(c % nx, c / nx)).collect(),
            depth: vec![depth; nx * ny],
            draft: None,
            current: None,
        }
    }

    #[test]
    fn splines_reproduce_a_plane_and_its_slope() {
        let plane = field(12, 9, |i, j| 0.5 * i as f32 - 0.25 * j as f32, 1.0);
        let s = sample(&plane, 5.3, 4.8);
        // Rounding of single precision only.
        assert!((s.zeta - (0.5 * 5.3 - 0.25 * 4.8)).abs() < 1e-5);
        assert!((s.slope[0] - 0.5).abs() < 1e-5 && (s.slope[1] + 0.25).abs() < 1e-5);
        assert!((s.wet - 1.0).abs() < 1e-6);
    }

    #[test]
    fn draws_a_picture_of_the_asked_width() {
        rrbsolver_plot::fonts::register();
        let style = Style { width: 400, range: None, window: None, title: None };
        for shown in [field(7, 5, |i, _| i as f32, 3.0), field(1, 1, |_, _| 0.0, 0.0)] {
            let png = draw(&shown, &style).unwrap();
            assert_eq!(&png[1..4], b"PNG");
            assert_eq!(png[16..20], 400u32.to_be_bytes());
        }
        let nothing = Style { window: Some([100.0, 100.0, 200.0, 200.0]), ..style };
        assert!(draw(&field(7, 5, |_, _| 0.0, 1.0), &nothing).is_err());
    }

    #[test]
    fn arrows_show_a_current() {
        rrbsolver_plot::fonts::register();
        let style = Style { width: 400, range: Some(1.0), window: None, title: None };
        let mut shown = field(40, 30, |_, _| 0.0, 3.0);
        let dark = |shown: &Field| {
            let picture = paint(shown, &style).unwrap();
            picture.pixels.chunks_exact(3).filter(|pixel| pixel[2] < 130 && pixel[0] < 60).count()
        };
        let without = dark(&shown);
        shown.current = Some([vec![0.0; 40 * 30], vec![0.0; 40 * 30]]);
        assert_eq!(dark(&shown), without, "water at rest");
        shown.current = Some([vec![1.0; 40 * 30], vec![-0.5; 40 * 30]]);
        assert!(dark(&shown) > without + 100);
    }
}
