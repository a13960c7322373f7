//! How large a screen is drawn at most: a terminal may claim 65,535 columns and rows, and a cell takes memory.

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// Columns drawn at most.
const COLUMNS: u16 = 2000;
/// Rows drawn at most.
const ROWS: u16 = 500;

/// Of a terminal of `w` columns and `h` rows that much is drawn, from the upper left.
pub fn bounded((w, h): (u16, u16)) -> (u16, u16) {
    (w.min(COLUMNS), h.min(ROWS))
}

/// A backend that is never larger than that.
#[derive(Debug)]
pub struct Bounded<B>(pub B);

impl<B: Backend> Backend for Bounded<B> {
    type Error = B::Error;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), Self::Error>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> Result<(), Self::Error> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> Result<(), Self::Error> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> Result<Position, Self::Error> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Self::Error> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> Result<(), Self::Error> {
        self.0.clear()
    }

    fn clear_region(&mut self, what: ClearType) -> Result<(), Self::Error> {
        self.0.clear_region(what)
    }

    fn size(&self) -> Result<Size, Self::Error> {
        let Size { width, height } = self.0.size()?;
        let (width, height) = bounded((width, height));
        Ok(Size { width, height })
    }

    fn window_size(&mut self) -> Result<WindowSize, Self::Error> {
        let mut size = self.0.window_size()?;
        let (width, height) = bounded((size.columns_rows.width, size.columns_rows.height));
        size.columns_rows = Size { width, height };
        Ok(size)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.0.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    #[test]
    fn a_terminal_of_any_size_is_drawn_within_bounds() {
        assert_eq!(bounded((160, 50)), (160, 50));
        assert_eq!(bounded((u16::MAX, u16::MAX)), (2000, 500));
        assert_eq!(Bounded(TestBackend::new(3000, 10)).size().unwrap(), Size { width: 2000, height: 10 });
        let mut terminal = ratatui::Terminal::new(Bounded(TestBackend::new(10, 600))).unwrap();
        terminal.draw(|frame| assert_eq!(frame.area().height, 500)).unwrap();
    }
}
