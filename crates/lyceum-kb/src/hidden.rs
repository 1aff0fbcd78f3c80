//! Characters that people do not see, or that make text show as another.

/// Whether `c` controls a terminal, turns the direction of text, has no width or is invisible.
///
/// Joiners and variation selectors are not among them: they shape words of many scripts and hold emoji together.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || is_bidi_control(c) || is_invisible(c)
}

/// Whether `c` joins or varies its neighbours: part of many words, but two names that differ by it look the same.
pub(crate) fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Whether `c` turns the direction of text.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_told_from_text() {
        for c in ['\0', '\x1b', '\x7f', '\u{9b}', '\u{202e}', '\u{200b}', '\u{feff}', '\u{e0041}'] {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in ['a', ' ', 'é', '日', '\u{a0}', '🙂', '\u{200d}', '\u{fe0f}', '\u{e0100}', 'ا']
        {
            assert!(!is_hidden(c), "{c:?}");
        }
    }
}
