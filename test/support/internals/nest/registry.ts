export { methodRoute } from '../../../../lib/nest/registry/method-route.js';
