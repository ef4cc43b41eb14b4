import type { OpenContender } from '../contender.js';

/** Nothing: what Nest itself takes. */
export const bare: OpenContender = () => ({});
