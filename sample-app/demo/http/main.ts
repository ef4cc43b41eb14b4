import { runDemo } from './run-demo.js';

// A hung scenario must not keep the process alive.
process.exit((await runDemo()) ? 0 : 1);
