//! One embedded font, so that pictures look the same on every machine and no system library is needed.

use plotters::style::{FontStyle, register_font};

/// Name under which the font is registered; it is also what an SVG viewer falls back to.
pub const FAMILY: &str = "sans-serif";

/// To be called once, before anything is drawn.
pub fn register() {
    for style in [FontStyle::Normal, FontStyle::Bold] {
        // Fails only for bytes that are no font.
        assert!(register_font(FAMILY, style, epaint_default_fonts::UBUNTU_LIGHT).is_ok(), "embedded font");
    }
}
