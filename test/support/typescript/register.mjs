import { register } from 'node:module';

// `node --import …/register.mjs some.ts` runs TypeScript against lib/ itself: a child process of a test needs
// no build, and never runs a stale one.
register('./hooks.mjs', import.meta.url);
