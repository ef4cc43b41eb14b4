import { findServer } from '../servers/find-executable.js';

/** The promtool that PROMTOOL_BIN names, else one on PATH. It is part of Prometheus' package. */
export const findPromtool = () => findServer('promtool', 'PROMTOOL_BIN');
