import { runDemo } from './run-demo.js';
import { demoSettings } from './settings.js';

// Hung work must not keep the process alive.
process.exit((await runDemo(demoSettings(process.env))) ? 0 : 1);
