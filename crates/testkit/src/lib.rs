//! What the end-to-end tests share: the built program, raw HTTP, fault proxies, processes
