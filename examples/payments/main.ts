/** `npm run example -- payments`: the connection to the provider breaks after it has charged, and the client sends the payment again. */
import { show } from '../support/show.js';
import { PaymentProvider, PROVIDER_URL } from './payment-provider.js';
import { PaymentsController } from './payments.controller.js';
import { ProviderServer } from './provider-server.js';

const provider = await ProviderServer.start();
provider.plan = ['cut'];
const payment = { key: 'k1', as: { id: 'alice' }, json: { card: '4242', amount: 4999 } };
await show(
  {
    controllers: [PaymentsController],
    providers: [PaymentProvider, { provide: PROVIDER_URL, useValue: provider.url }],
  },
  async (send) => {
    await send('/payments', payment);
    await send('/payments', payment);
    await send('/payments', payment);
  },
);
provider.stop();
console.log(`asked: ${provider.asked.length}, charged: ${provider.ledger.length}`);
