package infer

// Opening reports whether models of the folder have not been tried yet since the service was
// made. Ready says what is wrong with those that have.
func (s *Service) Opening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opening > 0
}
