import { runDemo } from './demo-messages/run-demo.js';
import { demoSettings } from './demo-messages/settings.js';

// Hung work must not keep the process alive.
process.exit((await runDemo(demoSettings(process.env))) ? 0 : 1);
