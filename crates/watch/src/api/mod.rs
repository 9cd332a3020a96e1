//! HTTP for programs: wallets, the stream of notices, invoices.
