import { validateEnvironment } from './config/environment.js';
import { startApp } from './create-app.js';
import { welcome } from './welcome.js';

const environment = validateEnvironment(process.env);
const app = await startApp(environment);
console.log(welcome(await app.getUrl(), environment));
