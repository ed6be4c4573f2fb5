//! Rows in host memory.

use std::{ops::Range, sync::Arc};

use crate::{Error, Result};

/// `rows × width` f32 values in host memory. Cloning shares them.
#[derive(Clone, Debug)]
pub struct HostRows {
    values: Arc<Vec<f32>>,
    first: usize,
    rows: usize,
    width: usize,
}

impl HostRows {
    /// Rows of `width` values. Fails if the values are not whole rows.
    pub fn new(values: Vec<f32>, width: usize) -> Result<Self> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        if rows * width != values.len() {
            return Err(Error::Message(format!("{} values are no rows of {width}", values.len())));
        }
        Ok(Self::of(values, rows, width))
    }

    fn of(values: Vec<f32>, rows: usize, width: usize) -> Self {
        Self { values: Arc::new(values), first: 0, rows, width }
    }

    /// Number of rows and values of a row.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.width)
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values[self.first * self.width..][..self.rows * self.width]
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[(self.first + row) * self.width..][..self.width]
    }

    fn each_row(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.rows).map(|row| self.row(row))
    }

    /// The rows `start..start + count`, which exist.
    #[must_use]
    pub fn narrow(&self, start: usize, count: usize) -> Self {
        Self { first: self.first + start, rows: count, ..self.clone() }
    }

    /// Copies of some rows, which exist, in the given order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut values = Vec::with_capacity(rows.len() * self.width);
        rows.iter().for_each(|&row| values.extend_from_slice(self.row(row)));
        Self::of(values, rows.len(), self.width)
    }

    /// Copies of some columns, which exist.
    #[must_use]
    pub fn columns(&self, columns: Range<usize>) -> Self {
        let mut values = Vec::with_capacity(self.rows * columns.len());
        self.each_row().for_each(|row| values.extend_from_slice(&row[columns.clone()]));
        Self::of(values, self.rows, columns.len())
    }

    /// Copies padded with zeros to `width` values.
    #[must_use]
    pub fn widened(&self, width: usize) -> Self {
        let mut values = Vec::with_capacity(self.rows * width);
        for row in self.each_row() {
            values.extend_from_slice(row);
            values.resize(values.len() + width - self.width, 0.0);
        }
        Self::of(values, self.rows, width)
    }
}
