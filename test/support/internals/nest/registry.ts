export { callRoute } from '../../../../lib/nest/registry/method-route.js';
