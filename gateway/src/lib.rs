//! lobgate
