// Sets the theme before the page is painted. It is no module, which would come later.
(function () {
  let theme = 'auto';
  try { theme = localStorage.getItem('weft-theme') || 'auto'; } catch { /* a browser that keeps nothing */ }
  document.documentElement.dataset.theme = theme;
})();
