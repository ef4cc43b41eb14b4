import { runDemo } from './demo/run-demo.js';

// A scenario that never ended must not keep the process from ending.
process.exit((await runDemo()) ? 0 : 1);
