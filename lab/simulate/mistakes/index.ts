import { ENGINE_MISTAKES } from './engine.js';
import type { Mistake } from './mistake.js';
import { OPERATION_MISTAKES } from './operation.js';
import { STORE_MISTAKES } from './store.js';

/** Each rule of the protocol, and each part of the library that the simulation runs, has at least one. */
export const MISTAKES: readonly Mistake[] = [
  ...ENGINE_MISTAKES,
  ...OPERATION_MISTAKES,
  ...STORE_MISTAKES,
];
