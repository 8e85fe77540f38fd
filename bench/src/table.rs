//! Prints results as Markdown tables, so that the documentation can take them over as they are.

/// A table that is printed when it is complete.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; the first is aligned to the left, the others to the right.
    pub fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|&column| column.to_owned()).collect()] }
    }

    /// Adds a row: its name and the figures.
    pub fn row(&mut self, name: &str, figures: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(name.to_owned()).chain(figures).collect());
    }

    /// Prints it under a title, with a sentence about what is measured.
    pub fn print(&self, title: &str, about: &str) {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        println!("\n## {title}\n\n{about}\n");
        for (index, row) in self.rows.iter().enumerate() {
            let cell = |(column, cell): (usize, &String)| match column {
                0 => format!("{cell:<0$}", widths[0]),
                _ => format!("{cell:>0$}", widths[column]),
            };
            let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
            println!("| {} |", cells.join(" | "));
            if index == 0 {
                let rule = |(column, width): (usize, &usize)| match column {
                    0 => "-".repeat(*width),
                    _ => format!("{}:", "-".repeat(width - 1)),
                };
                let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
                println!("| {} |", rules.join(" | "));
            }
        }
    }
}

/// Nanoseconds and the like: one digit after the point, none from a hundred on.
pub fn figure(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// `figure` for ratios.
pub fn times(value: f64) -> String {
    format!("{}×", figure(value))
}

/// A number of bytes in the unit that fits.
pub fn bytes(value: f64) -> String {
    match value {
        v if v < 1024.0 => format!("{v:.0} B"),
        v if v < 1024.0 * 1024.0 => format!("{:.1} KiB", v / 1024.0),
        v => format!("{:.1} MiB", v / 1024.0 / 1024.0),
    }
}
