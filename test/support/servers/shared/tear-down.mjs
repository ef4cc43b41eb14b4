/** After the last test file. If Jest is killed, each server has a shell that ends it: start-server.ts. */
export { tearDown as default } from './set-up.mjs';
