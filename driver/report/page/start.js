// The page is drawn now, and again where light becomes dark. `ready` ends when all is drawn.
scheme.addEventListener('change', () => {
  ready = show();
});
let ready = show();
