import {
  PROTOCOL,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
  resolve,
  type Services,
} from '../internals/core.js';

/** The protocol's options as an attempt receives them; later levels override earlier ones, field by field. */
export function protocolOptions(...levels: readonly ProtocolOptions[]): ResolvedProtocolOptions {
  const what = 'a test';
  return resolve(
    PROTOCOL,
    levels.map((given) => ({ what, place: 'method', given })),
  );
}

/** For transports without an application around them. */
export const noServices: Services = {
  get: () => {
    throw new Error('there are no services');
  },
};
