import { createApp } from './create-app.js';
import { validateEnvironment } from './config/environment.js';
import { consumeOrders } from './orders/consume-orders.js';
import { welcome } from './welcome.js';

const environment = validateEnvironment(process.env);
const { BROKER_URL: url, ORDERS_QUEUE: queue } = environment;
const app = await createApp(environment.PLATFORM, environment.CORS_ORIGIN);
app.enableShutdownHooks();
await app.listen(environment.PORT, '127.0.0.1');
app.useLogger(['error', 'warn', 'log']);
if (url !== undefined) await consumeOrders(app, { url, queue });
console.log(welcome(await app.getUrl(), environment));
