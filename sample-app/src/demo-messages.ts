import { runDemo } from './demo-messages/run-demo.js';
import { demoSettings } from './demo-messages/settings.js';

// What never ended must not keep the process from ending.
process.exit((await runDemo(demoSettings(process.env))) ? 0 : 1);
