import type { Recover } from 'nestjs-idempotency';
import { PaymentProvider } from './payment-provider.js';

/** Looks for the charge of an attempt that has died. */
export const findCharge: Recover = async ({ downstreamKey, signal }, services) => {
  const charge = await services.get(PaymentProvider).find(downstreamKey('provider/charge'), signal);
  return charge === undefined ? 'run' : { value: charge };
};
