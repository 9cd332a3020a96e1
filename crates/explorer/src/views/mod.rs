//! Views: plain values to markup. Pure; the only clock is an argument.

pub(crate) mod block;
pub(crate) mod chart;
pub(crate) mod decoded;
pub(crate) mod flow;
pub(crate) mod gone;
pub(crate) mod history;
pub(crate) mod home;
pub(crate) mod labels;
pub(crate) mod layout;
pub(crate) mod parts;
pub(crate) mod projected;
pub(crate) mod push;
pub(crate) mod refusal;
pub(crate) mod rest;
pub(crate) mod scan;
pub(crate) mod schedule;
pub(crate) mod script;
pub(crate) mod several;
pub(crate) mod sides;
pub(crate) mod silent_payment;
pub(crate) mod stale;
pub(crate) mod status;
pub(crate) mod transaction;
pub(crate) mod versions;
