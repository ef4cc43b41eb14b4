/** A payment of 200 bytes, as a client would send it. */
export const PAYMENT = paymentOf(1990);

/** Another one, for the same key. */
export const OTHER_PAYMENT = paymentOf(2990);

/** A payment of so many bytes. */
export function paymentOf(amount: number, bytes = 200): string {
  const payment = {
    amount,
    currency: 'EUR',
    customer: { id: 'cus_01j9zq3k5v8w2x4y', country: 'DE' },
    items: [{ sku: 'A-1', count: 2 }],
    reference: '',
  };
  payment.reference = 'r'.repeat(bytes - JSON.stringify(payment).length);
  return JSON.stringify(payment);
}
