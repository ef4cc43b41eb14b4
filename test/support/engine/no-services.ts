import type { Services } from '../internals/core.js';

/** For transports without an application around them. */
export const noServices: Services = {
  get: () => {
    throw new Error('there are no services');
  },
};
