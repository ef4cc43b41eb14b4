/** After the last test file. Where Jest is killed, each server has somebody who ends it: end-with-this-process.ts. */
export { tearDown as default } from './set-up.mjs';
